// The memory that the stages of a model take, by their parts besides the layers, and how many
// layers a stage's devices therefore hold. Every layer of a model counts as its largest: where some
// have experts and others not, what fits so fits anyhow.
//
// Threads: values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/device_kind.h"
#include "model/model_config.h"
#include "placement/placement.h"
#include "placement/step_cost.h"

namespace tutti::placement {

// Bytes on one rank of a stage.
struct RankCost {
  int64_t fixed_weights = 0;  // embedding, head, their norms, the draft model
  int64_t fixed_block = 0;    // K/V of one block in the draft model
  int64_t layer_weights = 0;  // of each layer, at most
  int64_t layer_block = 0;    // K/V of one block in one layer
  int64_t activations = 0;    // work space of the largest step
};

struct StageCost {
  std::vector<RankCost> ranks;
  StepCost step;
};

// The costs of every kind of stage on every kind of device, computed when first asked for.
// REQUIRES: model and options outlive it
class StageCosts {
 public:
  StageCosts(const model::ModelConfig& model, const PlacementOptions& options)
      : model_(model), options_(options) {}
  // The reference stays valid as long as this does.
  // REQUIRES: CheckRanks(model, ranks) and CheckDeviceKind(model, kind) are OK
  const StageCost& Of(int ranks, bool first, bool last, DeviceKind kind);

  // The weights of the rank of a stage whose layers are decided, to the byte.
  int64_t WeightBytes(const StagePlacement& stage, int ranks, int rank, DeviceKind kind);

 private:
  int64_t DraftWeights(bool last, int rank, DeviceKind kind) const;
  void AddDraft(DeviceKind kind, RankCost* cost) const;
  StageCost Compute(int ranks, bool first, bool last, DeviceKind kind) const;

  const model::ModelConfig& model_;
  const PlacementOptions& options_;
  // Costs by kind, log2(ranks), first, last.
  std::array<std::unique_ptr<StageCost>, 16 * kDeviceKinds> known_;
};

// A stage of a pipeline whose layers are not decided yet.
struct StageSlot {
  struct Rank {
    const RankCost* cost = nullptr;
    int64_t memory = 0;  // of its device
  };
  const StepCost* step = nullptr;
  std::vector<Rank> ranks;
  DeviceSpeed speed;  // of the slowest; nominal where nothing is known
};

// The most layers that fit, with `blocks` blocks of K/V each.
int64_t LayersThatFit(const StageSlot& slot, int64_t blocks);
// The most blocks that fit beside `layers` layers; negative: not even the layers do.
int64_t BlocksThatFit(const StageSlot& slot, int64_t layers);
// Bytes that the tightest device lacks for `layers` layers with `blocks` blocks, and which that is.
// Negative: that many are free.
struct Lack {
  int64_t rank = 0;
  int64_t bytes = 0;
};
Lack LackFor(const StageSlot& slot, int64_t layers, int64_t blocks);

}  // namespace tutti::placement
