#include "placement/placement_split.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"

namespace tutti::placement {
namespace {

LinkSpeed LinkOf(const PlacementOptions& options) {
  return options.link.known() ? options.link : kNominalLink;
}

int64_t SequenceTokens(const PlacementOptions& options, int64_t context) {
  const int64_t length = options.max_model_len > 0 ? options.max_model_len : context;
  return std::min(length, kPlannedSequenceTokens);
}

double SlowestSeconds(const std::vector<StageSlot>& slots, const std::vector<int32_t>& layers,
                      const StepLoad& load, const LinkSpeed& link) {
  double slowest = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    slowest =
        std::max(slowest, StageSeconds(*slots[i].step, layers[i], load, slots[i].speed, link));
  }
  return slowest;
}

// The sizes of the KV room at which some stage holds one layer fewer, from large to small.
std::vector<int64_t> RoomsToTry(const std::vector<StageSlot>& slots, int64_t num_layers,
                                int64_t least, int64_t most, int64_t tried_max) {
  std::vector<int64_t> rooms = {most};
  // Most of these are out of range or the same for many stages.
  if (static_cast<int64_t>(slots.size()) * num_layers <= 64 * tried_max) {
    for (const StageSlot& slot : slots) {
      for (int64_t layers = 1; layers <= num_layers; ++layers) {
        const int64_t blocks = BlocksThatFit(slot, layers);
        if (blocks < least) break;
        if (blocks < most) rooms.push_back(blocks);
      }
    }
    std::sort(rooms.begin(), rooms.end(), std::greater<>());
    rooms.erase(std::unique(rooms.begin(), rooms.end()), rooms.end());
    if (static_cast<int64_t>(rooms.size()) <= tried_max) return rooms;
  }
  const int64_t steps = std::min<int64_t>(16, tried_max);
  rooms.clear();
  for (int64_t i = steps; i >= 1; --i) rooms.push_back(least + (most - least) / steps * i);
  rooms.front() = most;
  return rooms;
}

}  // namespace

BlockRange BlocksWanted(const model::ModelConfig& model, const PlacementOptions& options) {
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

FullLoad LoadOf(const PlacementOptions& options, int64_t context, int64_t blocks,
                size_t num_stages) {
  const auto tokens = static_cast<double>(SequenceTokens(options, context));
  const double room = static_cast<double>(blocks * options.block_size) / tokens;
  const int32_t busy = options.busy_sequences > 0 ? options.busy_sequences : options.max_sequences;
  const double running = std::clamp(room, 1.0, static_cast<double>(busy));
  const double rows = std::max(1.0, running / static_cast<double>(num_stages));
  return {.running = running, .step = {.rows = rows, .depth = tokens}};
}

std::vector<int32_t> Deal(const std::vector<StageSlot>& slots, int64_t num_layers, int64_t blocks,
                          const std::function<double(const StageSlot&, int64_t)>& load) {
  using Next = std::pair<double, int32_t>;  // the stage's load with one layer more
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  std::vector<int32_t> layers(slots.size(), 1);
  std::vector<int64_t> most;
  const auto push = [&](int32_t i) {
    if (layers[i] < most[i]) next.emplace(load(slots[i], layers[i] + 1), i);
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    most.push_back(LayersThatFit(slots[i], blocks));
    push(static_cast<int32_t>(i));
  }
  for (auto dealt = static_cast<int64_t>(slots.size()); dealt < num_layers; ++dealt) {
    CHECK(!next.empty()) << "no stage has room for layer " << dealt;
    const int32_t stage = next.top().second;
    next.pop();
    ++layers[stage];
    push(stage);
  }
  return layers;
}

int64_t BlocksOf(const std::vector<StageSlot>& slots, const std::vector<int32_t>& layers,
                 int64_t most) {
  for (size_t i = 0; i < slots.size(); ++i) {
    most = std::min(most, BlocksThatFit(slots[i], layers[i]));
  }
  return most;
}

bool Fits(const std::vector<StageSlot>& slots, int64_t num_layers, int64_t blocks) {
  int64_t total = 0;
  for (const StageSlot& slot : slots) {
    const int64_t layers = LayersThatFit(slot, blocks);
    if (layers < 1) return false;
    total += std::min(layers, num_layers);
  }
  return total >= num_layers && static_cast<int64_t>(slots.size()) <= num_layers;
}

Split FastestSplit(const model::ModelConfig& model, const std::vector<StageSlot>& slots,
                   const PlacementOptions& options, const BlockRange& wanted, int64_t tried_max) {
  const int64_t most = Largest(wanted.least, wanted.most, [&](int64_t blocks) {
    return Fits(slots, model.num_layers, blocks);
  });
  const int64_t context = model.max_position_embeddings;
  const LinkSpeed link = LinkOf(options);
  Split best;
  double best_rate = -1;
  for (const int64_t room : RoomsToTry(slots, model.num_layers, wanted.least, most, tried_max)) {
    const StepLoad load = LoadOf(options, context, room, slots.size()).step;
    Split split{
        .layers = Deal(slots, model.num_layers, room, [&](const StageSlot& slot, int64_t layers) {
          return StageSeconds(*slot.step, static_cast<double>(layers), load, slot.speed, link);
        })};
    split.blocks = BlocksOf(slots, split.layers, wanted.most);
    const double rate = PaceOf(slots, split, options, context);
    if (rate > best_rate) {
      best = std::move(split);
      best_rate = rate;
    }
  }
  return best;
}

double PaceOf(const std::vector<StageSlot>& slots, const Split& split,
              const PlacementOptions& options, int64_t context) {
  const FullLoad load = LoadOf(options, context, split.blocks, slots.size());
  const double slowest = SlowestSeconds(slots, split.layers, load.step, LinkOf(options));
  return load.running / (static_cast<double>(slots.size()) * slowest);
}

}  // namespace tutti::placement
