#include "placement/step_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/layer_kinds.h"
#include "model/partition.h"

namespace tutti::placement {
namespace {

// The bytes of the rank that holds most: shares may be uneven.
double BytesOf(const model::ModelConfig& model, int ranks, const model::StageShare& share) {
  int64_t most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    most = std::max(most,
                    model::ComputeShardBytes(model, share, ranks, rank, model::kUnpacked).total());
  }
  return static_cast<double>(most);
}

// The bytes of a layer as which all are timed: one with experts, where there are any, of the mean
// size.
double TimedLayerBytes(const model::ModelConfig& model, int ranks) {
  const std::vector<int64_t> kinds = model::KindsOfLayers(model);
  std::vector<double> layers(kinds.size());
  for (const int32_t kind : model::KindOfEachLayer(model, kinds)) {
    layers[static_cast<size_t>(kind)] += 1;
  }
  double bytes = 0, timed = 0;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (model.has_experts() && !model.has_experts(kinds[kind])) continue;
    const model::StageShare one{.first_layer = kinds[kind], .num_layers = 1};
    bytes += layers[kind] * BytesOf(model, ranks, one);
    timed += layers[kind];
  }
  return bytes / timed;
}

}  // namespace

DeviceSpeed SlowerOf(const DeviceSpeed& a, const DeviceSpeed& b) {
  return {std::min(a.read_bytes_per_second, b.read_bytes_per_second),
          std::min(a.flops_per_second, b.flops_per_second)};
}

StepCost StepCostOf(const model::ModelConfig& model, int ranks, bool has_head, bool is_last) {
  const auto element = static_cast<double>(DTypeBytes(model.dtype));
  // As many products as without codes, of fewer bytes.
  model::ModelConfig plain = model;
  plain.quant = {};
  StepCost cost;
  if (has_head) {
    cost.head_bytes = BytesOf(model, ranks, {.has_head = true});
    cost.head_flops = 2 * BytesOf(plain, ranks, {.has_head = true}) / element;
  }
  cost.layer_bytes = TimedLayerBytes(model, ranks);
  const double plain_bytes = TimedLayerBytes(plain, ranks);
  cost.layer_flops = 2 * plain_bytes / element;
  if (model.has_experts()) {
    int64_t width = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      width = std::max(width, model::WidthsOfRank(model, ranks, rank).expert);
    }
    int64_t experts = 0;  // of the rank that has most
    for (int rank = 0; rank < ranks; ++rank) {
      experts = std::max(experts, model::ExpertsOfRank(model, ranks, rank).size());
    }
    cost.experts = static_cast<double>(experts);
    cost.experts_per_row = static_cast<double>(model.experts_per_token) * cost.experts /
                           static_cast<double>(model.num_experts);
    // Gate, up and down.
    const double expert = 3 * static_cast<double>(model.hidden_size * width) * element;
    const double rest = std::max(0.0, plain_bytes - cost.experts * expert);
    cost.layer_flops = 2 * (rest + cost.experts_per_row * expert) / element;
    // Nearly all of such a layer.
    cost.expert_bytes = expert * cost.layer_bytes / plain_bytes;
    cost.layer_bytes = std::max(0.0, cost.layer_bytes - cost.experts * cost.expert_bytes);
  }
  const model::StageShare layer{.first_layer = 0, .num_layers = 1};
  cost.kv_bytes = static_cast<double>(model::KvBytesPerToken(model, layer, ranks));
  // Two products with every key and value, each a multiply-add.
  cost.attention_flops = 4 * static_cast<double>(model.q_width()) / ranks;
  const auto hidden = static_cast<double>(model.hidden_size);
  if (ranks > 1) {
    // Attention output and MLP down are each summed by recursive doubling, in f32.
    cost.collective_messages = 2 * std::log2(ranks);
    cost.collective_bytes = cost.collective_messages * hidden * sizeof(float);
  }
  if (!is_last) cost.hop_bytes = hidden * static_cast<double>(DTypeBytes(model.residual_dtype()));
  return cost;
}

double StageSeconds(const StepCost& cost, double layers, const StepLoad& load,
                    const DeviceSpeed& speed, const LinkSpeed& link) {
  const double kv_tokens = load.kv_tokens < 0 ? load.rows * load.depth : load.kv_tokens;
  const double sampled = load.sampled < 0 ? load.rows : load.sampled;
  double layer_bytes = cost.layer_bytes + kv_tokens * cost.kv_bytes;
  if (cost.experts > 0) {
    // Rows choose their experts as if at random: experts that no row chose are not read.
    const double unread = std::pow(1 - cost.experts_per_row / cost.experts, load.rows);
    layer_bytes += cost.experts * cost.expert_bytes * (1 - unread);
  }
  const double read = (sampled > 0 ? cost.head_bytes : 0) + layers * layer_bytes;
  const double computed =
      sampled * cost.head_flops +
      load.rows * layers * (cost.layer_flops + load.depth * cost.attention_flops);
  const double waited = layers * (cost.collective_messages * link.latency_seconds +
                                  load.rows * cost.collective_bytes / link.bytes_per_second);
  return std::max(read / speed.read_bytes_per_second, computed / speed.flops_per_second) +
         (cost.collective_messages > 0 ? waited : 0);
}

double HopSeconds(const StepCost& cost, double rows, const LinkSpeed& link) {
  if (cost.hop_bytes <= 0) return 0;
  return link.latency_seconds + rows * cost.hop_bytes / link.bytes_per_second;
}

}  // namespace tutti::placement
