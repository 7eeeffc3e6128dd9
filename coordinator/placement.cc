#include "coordinator/placement.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "model/partition.h"
#include "model/work_space.h"

namespace tutti {
namespace {

// What one stage costs, by what it holds besides its layers. Every layer of a model has the same
// size.
struct StageCost {
  int64_t fixed_weights = 0;  // embedding, head, their norms
  int64_t read_weights = 0;   // the part of it that every step reads: not the embedding
  int64_t activations = 0;
};

struct Costs {
  std::vector<StageCost> stages;
  int64_t layer_weights = 0;
  int64_t layer_block = 0;  // KV bytes of one block in one layer
};

StageShare ShareOf(const ModelConfig& model, int64_t layers, bool embedding, bool head) {
  return {.first_layer = head ? model.num_layers - layers : 0,
          .num_layers = layers,
          .has_embedding = embedding,
          .has_head = head};
}

int64_t WeightBytes(const ModelConfig& model, int64_t layers, bool embedding, bool head) {
  return ComputeShardBytes(model, ShareOf(model, layers, embedding, head), 1, 0).total();
}

Costs CostsOf(const ModelConfig& model, int32_t num_stages, const PlacementOptions& options) {
  Costs costs;
  costs.layer_weights = WeightBytes(model, 1, false, false);
  costs.layer_block = options.block_size * ResidentKvBytesPerToken(model);
  for (int32_t i = 0; i < num_stages; ++i) {
    const bool first = i == 0;
    const bool last = i == num_stages - 1;
    costs.stages.push_back({.fixed_weights = WeightBytes(model, 0, first, last),
                            .read_weights = WeightBytes(model, 0, false, last),
                            .activations = WorkSpaceBytes(model, last, options.max_batch_tokens,
                                                          options.max_sequences)});
  }
  return costs;
}

// What a stage has left for its layers.
int64_t Left(const Costs& costs, int32_t stage, int64_t memory) {
  return memory - costs.stages[stage].fixed_weights - costs.stages[stage].activations;
}

// The most layers that fit, with `blocks` blocks of KV each.
int64_t LayersThatFit(const Costs& costs, int32_t stage, int64_t memory, int64_t blocks) {
  const int64_t left = Left(costs, stage, memory);
  return left <= 0 ? 0 : left / (costs.layer_weights + blocks * costs.layer_block);
}

// The most blocks that fit beside `layers` layers; negative: not even the layers do.
int64_t BlocksThatFit(const Costs& costs, int32_t stage, int64_t memory, int64_t layers) {
  const int64_t left = Left(costs, stage, memory) - layers * costs.layer_weights;
  return left < 0 ? -1 : left / (layers * costs.layer_block);
}

struct BlockRange {
  int64_t least = 0;
  int64_t most = 0;
};

BlockRange BlocksWanted(const ModelConfig& model, const PlacementOptions& options) {
  const auto blocks_for = [&](int64_t tokens) {
    return (tokens + options.block_size - 1) / options.block_size;
  };
  const int64_t length =
      options.max_model_len > 0 ? options.max_model_len : model.max_position_embeddings;
  // Below 2^31 sequences of 2^27 tokens each.
  int64_t most = blocks_for(options.max_sequences * length);
  if (options.kv_tokens_max > 0) {
    most = std::max<int64_t>(1, options.kv_tokens_max / options.block_size);
  }
  most = std::min<int64_t>(most, std::numeric_limits<int32_t>::max());
  const int64_t least = std::max<int64_t>(options.max_sequences, blocks_for(options.kv_tokens_min));
  return {.least = std::min(least, most), .most = most};
}

// Whether the devices hold all layers with `blocks` blocks each, every stage at least one layer.
bool Fits(const Costs& costs, int64_t num_layers, const std::vector<int64_t>& memory,
          int64_t blocks) {
  int64_t total = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    const int64_t layers = LayersThatFit(costs, static_cast<int32_t>(i), memory[i], blocks);
    if (layers < 1) return false;
    total += std::min(layers, num_layers);
  }
  return total >= num_layers;
}

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

// Deals the layers out one by one, each to the stage that then reads least per step, the first
// among equals.
std::vector<int32_t> Deal(const Costs& costs, int64_t num_layers,
                          const std::vector<int64_t>& memory, int64_t blocks) {
  std::vector<int32_t> layers(memory.size(), 1);
  for (int64_t dealt = static_cast<int64_t>(memory.size()); dealt < num_layers; ++dealt) {
    int32_t best = -1;
    int64_t best_load = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(memory.size()); ++i) {
      if (layers[i] >= LayersThatFit(costs, i, memory[i], blocks)) continue;
      const int64_t load = costs.stages[i].read_weights + (layers[i] + 1) * costs.layer_weights;
      if (best < 0 || load < best_load) {
        best = i;
        best_load = load;
      }
    }
    CHECK(best >= 0) << "no stage has room for layer " << dealt;
    ++layers[best];
  }
  return layers;
}

// The unit in which the number is easiest to read, rounded up: "what would fit" must fit.
std::string Size(int64_t bytes) {
  static constexpr struct {
    const char* name;
    int shift;
  } kUnits[] = {{"GiB", 30}, {"MiB", 20}, {"KiB", 10}};
  for (const auto& unit : kUnits) {
    const double value = static_cast<double>(bytes) / static_cast<double>(int64_t{1} << unit.shift);
    if (value >= 1) return absl::StrFormat("%.2f %s", std::ceil(value * 100) / 100, unit.name);
  }
  return absl::StrCat(bytes, " bytes");
}

// Memory that `count` equal devices need.
int64_t MemoryOfEach(const ModelConfig& model, const PlacementOptions& options, int32_t count,
                     int64_t blocks) {
  const Costs costs = CostsOf(model, count, options);
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t too_little = Largest(0, kMost, [&](int64_t memory) {
    return !Fits(costs, model.num_layers, std::vector<int64_t>(count, memory), blocks);
  });
  return too_little + 1;
}

// How many devices of `memory` bytes are enough, if any number is.
std::optional<int32_t> DevicesNeeded(const ModelConfig& model, const PlacementOptions& options,
                                     int64_t memory, int64_t blocks) {
  for (int32_t count = 1; count <= model.num_layers; ++count) {
    if (Fits(CostsOf(model, count, options), model.num_layers, std::vector<int64_t>(count, memory),
             blocks)) {
      return count;
    }
  }
  return std::nullopt;
}

// The layers do not fit, even with the least KV room. Says how many do, and what would be enough.
absl::Status DoesNotFit(const ModelConfig& model, const std::vector<DeviceSpec>& devices,
                        const Costs& costs, const PlacementOptions& options, int64_t blocks) {
  const auto count = static_cast<int32_t>(devices.size());
  int64_t held = 0;
  int64_t most_memory = 0;
  int32_t tightest = 0;
  int64_t tightest_layers = std::numeric_limits<int64_t>::max();
  for (int32_t i = 0; i < count; ++i) {
    const int64_t layers = LayersThatFit(costs, i, devices[i].memory_bytes, blocks);
    held += layers;
    most_memory = std::max(most_memory, devices[i].memory_bytes);
    if (layers < tightest_layers) {
      tightest = i;
      tightest_layers = layers;
    }
  }
  const int64_t layer_bytes = costs.layer_weights + blocks * costs.layer_block;
  const int64_t missing = tightest_layers < 1
                              ? layer_bytes - Left(costs, tightest, devices[tightest].memory_bytes)
                              : (model.num_layers - held) * layer_bytes;
  std::string message = absl::StrCat(
      "the model does not fit: with room for only ", blocks * options.block_size,
      " tokens of KV cache, ", count, count == 1 ? " device holds " : " devices hold ", held,
      " of ", model.num_layers, " layers; stage ", tightest, " (", devices[tightest].name, ", ",
      Size(devices[tightest].memory_bytes), ") lacks ", missing, " bytes (", Size(missing),
      "). What would fit: ", count, count == 1 ? " device" : " devices", " of ",
      Size(MemoryOfEach(model, options, count, blocks)));
  const std::optional<int32_t> more = DevicesNeeded(model, options, most_memory, blocks);
  if (more.has_value() && *more > count) {
    absl::StrAppend(&message, ", or ", *more, " devices of ", Size(most_memory));
  }
  const int64_t needed_by_sequences = options.max_sequences;
  if (blocks > needed_by_sequences) absl::StrAppend(&message, ", or a shorter context");
  return absl::ResourceExhaustedError(message);
}

absl::Status CheckOverrides(const ModelConfig& model, const std::vector<int32_t>& layers,
                            size_t num_stages) {
  if (layers.size() != num_stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("the device map has ", layers.size(), " stages, the pipeline ", num_stages));
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the device map gives stage ", i, " ", layers[i], " layers"));
    }
  }
  const int64_t total = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (total == model.num_layers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the device map has ", total, " layers, the model ", model.num_layers));
}

absl::Status StageLacks(int32_t stage, const DeviceSpec& device, int64_t layers, const Costs& costs,
                        int64_t blocks, const PlacementOptions& options) {
  const int64_t needed = costs.stages[stage].fixed_weights + costs.stages[stage].activations +
                         layers * (costs.layer_weights + blocks * costs.layer_block);
  return absl::ResourceExhaustedError(absl::StrCat(
      "stage ", stage, " (", device.name, ", ", Size(device.memory_bytes), ") with ", layers,
      " layers lacks ", needed - device.memory_bytes, " bytes for the least KV room of ",
      blocks * options.block_size, " tokens. What would fit: a device of ", Size(needed),
      ", or fewer layers there"));
}

}  // namespace

int64_t SmallestStageBytes(const ModelConfig& model, const PlacementOptions& options) {
  const Costs costs = CostsOf(model, 3, options);  // the middle one has neither embedding nor head
  return costs.stages[1].activations + costs.layer_weights + costs.layer_block;
}

absl::StatusOr<PlacementPlan> PlanPlacement(const ModelConfig& model,
                                            const std::vector<DeviceSpec>& all_devices,
                                            const PlacementOptions& options) {
  const size_t num_stages =
      options.num_stages > 0 ? static_cast<size_t>(options.num_stages) : all_devices.size();
  if (num_stages == 0 || all_devices.size() < num_stages) {
    return absl::InvalidArgumentError(
        absl::StrCat(all_devices.size(), " devices for ", num_stages, " stages"));
  }
  if (static_cast<int64_t>(num_stages) > model.num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_stages, " stages, but the model has only ", model.num_layers, " layers"));
  }
  const std::vector<DeviceSpec> devices(all_devices.begin(), all_devices.begin() + num_stages);
  std::vector<int64_t> memory;
  for (const DeviceSpec& device : devices) memory.push_back(device.memory_bytes);
  const auto count = static_cast<int32_t>(num_stages);
  const Costs costs = CostsOf(model, count, options);
  const BlockRange wanted = BlocksWanted(model, options);

  std::vector<int32_t> layers = options.layers;
  int64_t blocks = wanted.most;
  if (layers.empty()) {
    const auto fits = [&](int64_t b) { return Fits(costs, model.num_layers, memory, b); };
    if (!fits(wanted.least)) return DoesNotFit(model, devices, costs, options, wanted.least);
    blocks = Largest(wanted.least, wanted.most, fits);
    layers = Deal(costs, model.num_layers, memory, blocks);
  } else {
    TUTTI_RETURN_IF_ERROR(CheckOverrides(model, layers, num_stages));
    for (int32_t i = 0; i < count; ++i) {
      blocks = std::min(blocks, BlocksThatFit(costs, i, memory[i], layers[i]));
      if (blocks < wanted.least) {
        return StageLacks(i, devices[i], layers[i], costs, wanted.least, options);
      }
    }
  }

  PlacementPlan plan{.num_blocks = static_cast<int32_t>(blocks), .block_size = options.block_size};
  int32_t first_layer = 0;
  for (int32_t i = 0; i < count; ++i) {
    plan.stages.push_back(
        {.device = devices[i].name,
         .first_layer = first_layer,
         .num_layers = layers[i],
         .has_embedding = i == 0,
         .has_head = i == count - 1,
         .budget_bytes = memory[i],
         .weight_bytes = costs.stages[i].fixed_weights + layers[i] * costs.layer_weights,
         .kv_bytes = layers[i] * blocks * costs.layer_block,
         .activation_bytes = costs.stages[i].activations});
    first_layer += layers[i];
  }
  return plan;
}

}  // namespace tutti
