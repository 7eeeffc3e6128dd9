// The memory that the stages of a model take, by their parts besides the layers, and how many
// layers a stage's devices therefore hold.
//
// Layers are dealt out by number, as if all had one size. Where they have not (experts in some,
// other formats of codes), an estimate between their mean and the largest stands for each of them;
// what was dealt out so is then counted with each layer's own bytes, and dealt out anew by a larger
// estimate where it does not fit. What fits by the largest fits anyhow.
//
// Threads: values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/device_kind.h"
#include "model/layer_kinds.h"
#include "model/model_config.h"
#include "placement/placement.h"
#include "placement/step_cost.h"

namespace tutti::placement {

// Bytes on one rank of a stage.
struct RankCost {
  int64_t fixed_weights = 0;            // embedding, head, their norms, the draft model
  int64_t fixed_block = 0;              // K/V of one block in the draft model
  int64_t layer_weights = 0;            // of each layer, as estimated
  std::vector<int64_t> weights_before;  // of all layers before each; [num_layers + 1]
  int64_t layer_block = 0;              // K/V of one block in one layer
  int64_t activations = 0;              // work space of the largest step
};

struct StageCost {
  std::vector<RankCost> ranks;
  StepCost step;
};

// Sizes that layers are taken to have, one after the other, until a placement is found that fits.
inline constexpr int kLayerEstimates = 9;
inline constexpr int kLargestLayer = kLayerEstimates - 1;

// The costs of every kind of stage on every kind of device, computed when first asked for.
// REQUIRES: model and options outlive it
class StageCosts {
 public:
  // `estimate`: of [0, kLayerEstimates), from the mean of the layers' sizes to the largest.
  StageCosts(const model::ModelConfig& model, const PlacementOptions& options, int estimate)
      : model_(model), options_(options), estimate_(estimate) {}
  // The reference stays valid as long as this does.
  // REQUIRES: CheckRanks(model, ranks) and CheckDeviceKind(model, kind) are OK
  const StageCost& Of(int ranks, bool first, bool last, DeviceKind kind);

  // Whether all layers have one size, and so every estimate is true.
  bool layers_alike() const { return model::KindsOfLayers(model_).size() == 1; }
  // The weights of the rank of a stage whose layers are decided, to the byte.
  int64_t WeightBytes(const StagePlacement& stage, int ranks, int rank, DeviceKind kind);

 private:
  int64_t DraftWeights(bool last, int rank, DeviceKind kind) const;
  void AddDraft(DeviceKind kind, RankCost* cost) const;
  StageCost Compute(int ranks, bool first, bool last, DeviceKind kind) const;

  const model::ModelConfig& model_;
  const PlacementOptions& options_;
  const int estimate_;
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
// The slot with the weights of the layers [first, first + count), to the byte, in place of the
// estimate: for `count` layers in what is asked of it.
class FilledSlot {
 public:
  FilledSlot(const StageSlot& slot, int64_t first, int64_t count);
  FilledSlot(const FilledSlot&) = delete;
  FilledSlot& operator=(const FilledSlot&) = delete;
  const StageSlot& slot() const { return slot_; }

 private:
  std::vector<RankCost> costs_;
  StageSlot slot_;
};

// Bytes that the tightest device lacks for `layers` layers with `blocks` blocks, and which that is.
// Negative: that many are free.
struct Lack {
  int64_t rank = 0;
  int64_t bytes = 0;
};
Lack LackFor(const StageSlot& slot, int64_t layers, int64_t blocks);

}  // namespace tutti::placement
