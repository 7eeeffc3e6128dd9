// The number of layers that each stage of one pipeline gets, and how many KV blocks then fit.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "placement/placement.h"
#include "placement/placement_cost.h"

namespace tutti::placement {

// KV blocks per stage: the least that a placement must have, and the most that sequences can use.
struct BlockRange {
  int64_t least = 0;
  int64_t most = 0;
};
BlockRange BlocksWanted(const model::ModelConfig& model, const PlacementOptions& options);

struct Split {
  std::vector<int32_t> layers;  // of each stage
  int64_t blocks = 0;
};

// Tokens a running sequence is taken to hold: chats rarely hold more, and an unused context of
// 131,072 tokens must not push the layers to devices with much memory and little speed.
inline constexpr int64_t kPlannedSequenceTokens = 2048;

// The work of a pipeline when as many sequences run as it has room for: they are divided over as
// many steps as there are stages.
struct FullLoad {
  double running = 0;
  StepLoad step;
};
FullLoad LoadOf(const PlacementOptions& options, int64_t context, int64_t blocks,
                size_t num_stages);

// Whether the slots hold all layers with `blocks` blocks each, every slot at least one layer.
bool Fits(const std::vector<StageSlot>& slots, int64_t num_layers, int64_t blocks);

// The blocks that fit beside `layers` on every stage, at most `most`; negative: not even the
// layers.
int64_t BlocksOf(const std::vector<StageSlot>& slots, const std::vector<int32_t>& layers,
                 int64_t most);

// Deals the layers out one by one, each to the slot whose `load` is then the least, the first among
// equals. If loads grow with layers, no other split has a smaller largest load.
// REQUIRES: Fits(slots, num_layers, blocks)
std::vector<int32_t> Deal(const std::vector<StageSlot>& slots, int64_t num_layers, int64_t blocks,
                          const std::function<double(const StageSlot&, int64_t)>& load);

// Rows that leave the slowest stage per second, when as many sequences run as there is room for and
// they are divided over as many steps as there are stages.
double PaceOf(const std::vector<StageSlot>& slots, const Split& split,
              const PlacementOptions& options, int64_t context);

// The split of the highest pace, and the one with more KV room among equals. Exact up to
// `tried_max` sizes of the KV room, which covers the pipelines of any published model; beyond,
// the sizes tried are spread evenly.  REQUIRES: Fits(slots, model.num_layers, wanted.least)
inline constexpr int64_t kSplitsTriedMax = 1024;
Split FastestSplit(const model::ModelConfig& model, const std::vector<StageSlot>& slots,
                   const PlacementOptions& options, const BlockRange& wanted,
                   int64_t tried_max = kSplitsTriedMax);

// The largest value in [low, high] for which `holds`.  REQUIRES: holds(low), and holds is monotone
template <typename Predicate>
int64_t Largest(int64_t low, int64_t high, Predicate holds) {
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace tutti::placement
