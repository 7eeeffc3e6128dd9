#include "coordinator/placement_cost.h"

#include <algorithm>
#include <limits>

#include "model/partition.h"
#include "model/work_space.h"

namespace tutti {
namespace {

int64_t WeightBytes(const ModelConfig& model, int64_t layers, bool embedding, bool head, int ranks,
                    int rank) {
  const StageShare share{.first_layer = head ? model.num_layers - layers : 0,
                         .num_layers = layers,
                         .has_embedding = embedding,
                         .has_head = head};
  return ComputeShardBytes(model, share, ranks, rank).total();
}

int64_t Left(const StageSlot& slot, size_t rank) {
  const RankCost& cost = slot.cost->ranks[rank];
  return slot.memory[rank] - cost.fixed_weights - cost.activations;
}

}  // namespace

const StageCost& StageCosts::Of(int ranks, bool first, bool last) {
  const size_t log2 = ranks == 1 ? 0 : ranks == 2 ? 1 : ranks == 4 ? 2 : 3;
  std::unique_ptr<StageCost>& known = known_[log2 * 4 + (first ? 2 : 0) + (last ? 1 : 0)];
  if (known == nullptr) known = std::make_unique<StageCost>(Compute(ranks, first, last));
  return *known;
}

StageCost StageCosts::Compute(int ranks, bool first, bool last) const {
  StageCost cost;
  cost.step = StepCostOf(model_, ranks, last, last);
  for (int rank = 0; rank < ranks; ++rank) {
    cost.ranks.push_back(
        {.fixed_weights = WeightBytes(model_, 0, first, last, ranks, rank),
         .layer_weights = WeightBytes(model_, 1, false, false, ranks, rank),
         .layer_block = options_.block_size * ResidentKvBytesPerToken(model_, ranks),
         .activations = WorkSpaceBytes(model_, last, options_.max_batch_tokens,
                                       options_.max_sequences, ranks, rank)});
  }
  return cost;
}

int64_t LayersThatFit(const StageSlot& slot, int64_t blocks) {
  int64_t layers = std::numeric_limits<int64_t>::max();
  for (size_t rank = 0; rank < slot.memory.size(); ++rank) {
    const RankCost& cost = slot.cost->ranks[rank];
    const int64_t left = Left(slot, rank);
    const int64_t fit = left <= 0 ? 0 : left / (cost.layer_weights + blocks * cost.layer_block);
    layers = std::min(layers, fit);
  }
  return layers;
}

int64_t BlocksThatFit(const StageSlot& slot, int64_t layers) {
  int64_t blocks = std::numeric_limits<int64_t>::max();
  for (size_t rank = 0; rank < slot.memory.size(); ++rank) {
    const RankCost& cost = slot.cost->ranks[rank];
    const int64_t left = Left(slot, rank) - layers * cost.layer_weights;
    blocks = std::min(blocks, left < 0 ? -1 : left / (layers * cost.layer_block));
  }
  return blocks;
}

Lack LackFor(const StageSlot& slot, int64_t layers, int64_t blocks) {
  Lack most{.rank = 0, .bytes = std::numeric_limits<int64_t>::min()};
  for (size_t rank = 0; rank < slot.memory.size(); ++rank) {
    const RankCost& cost = slot.cost->ranks[rank];
    const int64_t lacks =
        layers * (cost.layer_weights + blocks * cost.layer_block) - Left(slot, rank);
    if (lacks > most.bytes) most = {static_cast<int64_t>(rank), lacks};
  }
  return most;
}

}  // namespace tutti
