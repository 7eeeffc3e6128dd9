#include "placement/placement_cost.h"

#include <algorithm>
#include <limits>

#include "model/partition.h"
#include "model/work_space.h"

namespace tutti::placement {
namespace {

// The bytes of the ends of a stage, without layers.
int64_t FixedBytes(const model::ModelConfig& model, const model::StageShare& ends, int ranks,
                   int rank, DeviceKind kind) {
  return model::ComputeShardBytes(model, ends, ranks, rank, model::PackingOf(kind)).total();
}

// The bytes of a layer of the largest kind: any of the layers may come to lie here.
int64_t LayerBytes(const model::ModelConfig& model, int ranks, int rank, DeviceKind kind) {
  int64_t most = 0;
  for (const int64_t layer : model::KindsOfLayers(model)) {
    const model::StageShare one{.first_layer = layer, .num_layers = 1};
    most = std::max(
        most, model::ComputeShardBytes(model, one, ranks, rank, model::PackingOf(kind)).total());
  }
  return most;
}

int64_t Left(const StageSlot::Rank& rank) {
  return rank.memory - rank.cost->fixed_weights - rank.cost->activations;
}

}  // namespace

const StageCost& StageCosts::Of(int ranks, bool first, bool last, DeviceKind kind) {
  const size_t log2 = ranks == 1 ? 0 : ranks == 2 ? 1 : ranks == 4 ? 2 : 3;
  const size_t place = (static_cast<size_t>(kind) * 4 + log2) * 4;
  std::unique_ptr<StageCost>& known = known_[place + (first ? 2 : 0) + (last ? 1 : 0)];
  if (known == nullptr) known = std::make_unique<StageCost>(Compute(ranks, first, last, kind));
  return *known;
}

StageCost StageCosts::Compute(int ranks, bool first, bool last, DeviceKind kind) const {
  StageCost cost;
  cost.step = StepCostOf(model_, ranks, last, last);
  const model::StageShare ends{.has_embedding = first, .has_head = last};
  const model::StepSizes sizes{.max_batch_tokens = options_.max_batch_tokens,
                               .max_sequences = options_.max_sequences,
                               .max_model_len = options_.max_model_len > 0
                                                    ? options_.max_model_len
                                                    : model_.max_position_embeddings,
                               .block_size = options_.block_size};
  for (int rank = 0; rank < ranks; ++rank) {
    cost.ranks.push_back(
        {.fixed_weights = FixedBytes(model_, ends, ranks, rank, kind),
         .layer_weights = LayerBytes(model_, ranks, rank, kind),
         .layer_block =
             options_.block_size * model::ResidentKvBytesPerToken(model_, ranks, kind, rank),
         .activations = model::ActivationBytes(model_, ends, ranks, rank, sizes, kind)});
  }
  return cost;
}

int64_t StageCosts::WeightBytes(const StagePlacement& stage, int ranks, int rank, DeviceKind kind) {
  const model::StageShare share{.first_layer = stage.first_layer,
                                .num_layers = stage.num_layers,
                                .has_embedding = stage.has_embedding,
                                .has_head = stage.has_head};
  if (!model_.dense_layers.empty()) {
    return model::ComputeShardBytes(model_, share, ranks, rank, model::PackingOf(kind)).total();
  }
  // The same without a list of all tensors.
  const RankCost& cost =
      Of(ranks, share.has_embedding, share.has_head, kind).ranks[static_cast<size_t>(rank)];
  return cost.fixed_weights + share.num_layers * cost.layer_weights;
}

int64_t LayersThatFit(const StageSlot& slot, int64_t blocks) {
  int64_t layers = std::numeric_limits<int64_t>::max();
  for (const StageSlot::Rank& rank : slot.ranks) {
    const int64_t left = Left(rank);
    const int64_t each = rank.cost->layer_weights + blocks * rank.cost->layer_block;
    layers = std::min(layers, left <= 0 ? 0 : left / each);
  }
  return layers;
}

int64_t BlocksThatFit(const StageSlot& slot, int64_t layers) {
  int64_t blocks = std::numeric_limits<int64_t>::max();
  for (const StageSlot::Rank& rank : slot.ranks) {
    const int64_t left = Left(rank) - layers * rank.cost->layer_weights;
    blocks = std::min(blocks, left < 0 ? -1 : left / (layers * rank.cost->layer_block));
  }
  return blocks;
}

Lack LackFor(const StageSlot& slot, int64_t layers, int64_t blocks) {
  Lack most{.rank = 0, .bytes = std::numeric_limits<int64_t>::min()};
  for (size_t i = 0; i < slot.ranks.size(); ++i) {
    const RankCost& cost = *slot.ranks[i].cost;
    const int64_t lacks =
        layers * (cost.layer_weights + blocks * cost.layer_block) - Left(slot.ranks[i]);
    if (lacks > most.bytes) most = {static_cast<int64_t>(i), lacks};
  }
  return most;
}

}  // namespace tutti::placement
