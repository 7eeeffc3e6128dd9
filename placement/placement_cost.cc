#include "placement/placement_cost.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/layer_kinds.h"
#include "model/partition.h"
#include "model/work_space.h"

namespace tutti::placement {
namespace {

// The bytes of the ends of a stage, without layers.
int64_t FixedBytes(const model::ModelConfig& model, const model::StageShare& ends, int ranks,
                   int rank, DeviceKind kind) {
  return model::ComputeShardBytes(model, ends, ranks, rank, model::PackingOf(kind)).total();
}

// The bytes of all layers before each.
std::vector<int64_t> WeightsBefore(const model::ModelConfig& model, int ranks, int rank,
                                   DeviceKind kind) {
  const std::vector<int64_t> kinds = model::KindsOfLayers(model);
  std::vector<int64_t> bytes;
  for (const int64_t layer : kinds) {
    const model::StageShare one{.first_layer = layer, .num_layers = 1};
    bytes.push_back(
        model::ComputeShardBytes(model, one, ranks, rank, model::PackingOf(kind)).total());
  }
  std::vector<int64_t> before = {0};
  for (const int32_t of_layer : model::KindOfEachLayer(model, kinds)) {
    before.push_back(before.back() + bytes[static_cast<size_t>(of_layer)]);
  }
  return before;
}

int64_t EstimateLayer(const std::vector<int64_t>& before, int estimate) {
  const auto layers = static_cast<int64_t>(before.size()) - 1;
  int64_t most = 0;
  for (size_t i = 0; i + 1 < before.size(); ++i) most = std::max(most, before[i + 1] - before[i]);
  const int64_t mean = before.back() / std::max<int64_t>(1, layers);
  return mean + (most - mean) * estimate / kLargestLayer;
}

// The sizes of the largest step, as the workers have them.
model::StepSizes SizesOf(const model::ModelConfig& model, const PlacementOptions& options) {
  const int64_t context = model.max_position_embeddings;
  const int64_t length = options.max_model_len;
  return {.max_batch_tokens = options.max_batch_tokens,
          .max_sequences = options.max_sequences,
          .max_model_len = length > 0 ? std::min(length, context) : context,
          .block_size = options.block_size};
}

// No sequence is longer than the served model's, nor does the draft model read beyond its own.
model::StepSizes SizesOfDraft(const model::ModelConfig& model, const PlacementOptions& options) {
  model::StepSizes sizes = SizesOf(model, options);
  sizes.max_model_len = std::min(sizes.max_model_len, options.draft->max_position_embeddings);
  return sizes;
}

// The bytes that layers may have, beside so many blocks.
int64_t Left(const StageSlot::Rank& rank, int64_t blocks) {
  return rank.memory - rank.cost->fixed_weights - rank.cost->activations -
         blocks * rank.cost->fixed_block;
}

// The draft model is one stage of one rank.
constexpr int kDraftRanks = 1;

}  // namespace

const StageCost& StageCosts::Of(int ranks, bool first, bool last, DeviceKind kind) {
  const size_t log2 = ranks == 1 ? 0 : ranks == 2 ? 1 : ranks == 4 ? 2 : 3;
  const size_t place = (static_cast<size_t>(kind) * 4 + log2) * 4;
  std::unique_ptr<StageCost>& known = known_[place + (first ? 2 : 0) + (last ? 1 : 0)];
  if (known == nullptr) known = std::make_unique<StageCost>(Compute(ranks, first, last, kind));
  return *known;
}

// The worker that samples holds all of it (docs/decisions/0088).
int64_t StageCosts::DraftWeights(bool last, int rank, DeviceKind kind) const {
  if (options_.draft == nullptr || !last || rank != 0) return 0;
  const model::ModelConfig& draft = *options_.draft;
  return FixedBytes(draft, model::WholeModel(draft), kDraftRanks, /*rank=*/0, kind);
}

void StageCosts::AddDraft(DeviceKind kind, RankCost* cost) const {
  const model::ModelConfig& draft = *options_.draft;
  cost->fixed_weights += DraftWeights(/*last=*/true, /*rank=*/0, kind);
  cost->fixed_block = options_.block_size * draft.num_layers *
                      model::ResidentKvBytesPerToken(draft, kDraftRanks, kind, /*rank=*/0);
  cost->activations += model::ActivationBytes(draft, model::WholeModel(draft), kDraftRanks,
                                              /*rank=*/0, SizesOfDraft(model_, options_), kind);
}

StageCost StageCosts::Compute(int ranks, bool first, bool last, DeviceKind kind) const {
  StageCost cost;
  cost.step = StepCostOf(model_, ranks, last, last);
  const model::StageShare ends{.has_embedding = first, .has_head = last};
  const model::StepSizes sizes = SizesOf(model_, options_);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int64_t> before = WeightsBefore(model_, ranks, rank, kind);
    const int64_t layer = EstimateLayer(before, estimate_);
    cost.ranks.push_back(
        {.fixed_weights = FixedBytes(model_, ends, ranks, rank, kind),
         .layer_weights = layer,
         .weights_before = std::move(before),
         .layer_block =
             options_.block_size * model::ResidentKvBytesPerToken(model_, ranks, kind, rank),
         .activations = model::ActivationBytes(model_, ends, ranks, rank, sizes, kind)});
  }
  if (last && options_.draft != nullptr) AddDraft(kind, &cost.ranks.front());
  return cost;
}

int64_t StageCosts::WeightBytes(const StagePlacement& stage, int ranks, int rank, DeviceKind kind) {
  const RankCost& cost =
      Of(ranks, stage.has_embedding, stage.has_head, kind).ranks[static_cast<size_t>(rank)];
  const auto first = static_cast<size_t>(stage.first_layer);
  return cost.fixed_weights + cost.weights_before[first + static_cast<size_t>(stage.num_layers)] -
         cost.weights_before[first];
}

FilledSlot::FilledSlot(const StageSlot& slot, int64_t first, int64_t count) : slot_(slot) {
  for (const StageSlot::Rank& rank : slot.ranks) {
    RankCost& cost = costs_.emplace_back(*rank.cost);
    cost.fixed_weights += cost.weights_before[static_cast<size_t>(first + count)] -
                          cost.weights_before[static_cast<size_t>(first)];
    cost.layer_weights = 0;
  }
  for (size_t i = 0; i < costs_.size(); ++i) slot_.ranks[i].cost = &costs_[i];
}

int64_t LayersThatFit(const StageSlot& slot, int64_t blocks) {
  int64_t layers = std::numeric_limits<int64_t>::max();
  for (const StageSlot::Rank& rank : slot.ranks) {
    const int64_t left = Left(rank, blocks);
    const int64_t each = rank.cost->layer_weights + blocks * rank.cost->layer_block;
    layers = std::min(layers, left <= 0 ? 0 : left / each);
  }
  return layers;
}

int64_t BlocksThatFit(const StageSlot& slot, int64_t layers) {
  int64_t blocks = std::numeric_limits<int64_t>::max();
  for (const StageSlot::Rank& rank : slot.ranks) {
    const int64_t left = Left(rank, /*blocks=*/0) - layers * rank.cost->layer_weights;
    const int64_t each = layers * rank.cost->layer_block + rank.cost->fixed_block;
    blocks = std::min(blocks, left < 0 ? -1 : left / each);
  }
  return blocks;
}

Lack LackFor(const StageSlot& slot, int64_t layers, int64_t blocks) {
  Lack most{.rank = 0, .bytes = std::numeric_limits<int64_t>::min()};
  for (size_t i = 0; i < slot.ranks.size(); ++i) {
    const RankCost& cost = *slot.ranks[i].cost;
    const int64_t lacks =
        layers * (cost.layer_weights + blocks * cost.layer_block) - Left(slot.ranks[i], blocks);
    if (lacks > most.bytes) most = {static_cast<int64_t>(i), lacks};
  }
  return most;
}

}  // namespace tutti::placement
