#include "placement/placement_refusal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/gpu_memory.h"

namespace tutti::placement {
namespace {

// Stages of `ranks` devices like `device` each, `count` of them.
std::vector<StageSlot> EqualSlots(StageCosts* costs, size_t count, int ranks,
                                  const DeviceSpec& device) {
  const std::vector<StageGroup> groups(count, StageGroup(ranks, 0));
  return SlotsOf(groups, {device}, costs);
}

// What one stage lacks for all layers, each counted with its own bytes.
Lack LackForAll(const StageSlot& slot, int64_t layers, int64_t blocks) {
  return LackFor(FilledSlot(slot, 0, layers).slot(), layers, blocks);
}

// The first estimate of layers by which `groups` do not hold them; the largest where each says that
// they do.
int EstimateThatFails(const model::ModelConfig& model, const std::vector<DeviceSpec>& devices,
                      const std::vector<StageGroup>& groups, const PlacementOptions& options,
                      int64_t blocks) {
  for (int estimate = 0; estimate < kLargestLayer; ++estimate) {
    StageCosts costs(model, options, estimate);
    if (!Fits(SlotsOf(groups, devices, &costs), model.num_layers, blocks)) return estimate;
  }
  return kLargestLayer;
}

// Memory that each of `count * ranks` devices of the kind of `like` needs.
int64_t MemoryOfEach(const model::ModelConfig& model, StageCosts* costs, size_t count, int ranks,
                     DeviceSpec like, int64_t blocks) {
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t too_little = Largest(0, kMost, [&](int64_t memory) {
    like.memory_bytes = memory;
    const std::vector<StageSlot> slots = EqualSlots(costs, count, ranks, like);
    if (count == 1) return LackForAll(slots.front(), model.num_layers, blocks).bytes > 0;
    return !Fits(slots, model.num_layers, blocks);
  });
  return too_little + 1;
}

// The number of stages of `ranks` such devices that are enough, if any number is.
std::optional<int64_t> StagesNeeded(const model::ModelConfig& model, StageCosts* costs, int ranks,
                                    const DeviceSpec& device, int64_t blocks) {
  // More stages than this add devices with one layer each; a bisection finds the least.
  const auto fits = [&](int64_t count) {
    return Fits(EqualSlots(costs, static_cast<size_t>(count), ranks, device), model.num_layers,
                blocks);
  };
  if (!fits(model.num_layers)) {
    for (int64_t count = 1; count < model.num_layers; ++count) {
      if (fits(count)) return count;
    }
    return std::nullopt;
  }
  return model.num_layers - Largest(0, model.num_layers - 1,
                                    [&](int64_t fewer) { return fits(model.num_layers - fewer); });
}

std::string DevicesOf(int64_t count, int64_t memory) {
  return absl::StrCat(count, count == 1 ? " device of " : " devices of ", SizeRoundedUp(memory));
}

}  // namespace

std::string SizeRoundedUp(int64_t bytes) {
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

std::string DescribeStage(const std::vector<DeviceSpec>& devices,
                          const std::vector<StageGroup>& groups, size_t stage, int64_t rank) {
  const DeviceSpec& device = devices[groups[stage][rank]];
  const std::string of_ranks =
      groups[stage].size() > 1 ? absl::StrCat(" rank ", rank) : std::string();
  return absl::StrCat("stage ", stage, of_ranks, " (", device.name, ", ",
                      SizeRoundedUp(device.memory_bytes), ")");
}

absl::Status DoesNotFit(const model::ModelConfig& model, const std::vector<DeviceSpec>& devices,
                        const std::vector<StageGroup>& groups, const PlacementOptions& options,
                        int64_t blocks) {
  StageCosts costs(model, options, EstimateThatFails(model, devices, groups, options, blocks));
  const std::vector<StageSlot> slots = SlotsOf(groups, devices, &costs);
  int64_t held = 0;
  int64_t used = 0;
  const DeviceSpec* largest = &devices[groups.front().front()];
  size_t tightest = 0;
  int64_t tightest_layers = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < slots.size(); ++i) {
    const int64_t layers = LayersThatFit(slots[i], blocks);
    held += layers;
    used += static_cast<int64_t>(groups[i].size());
    for (const int64_t index : groups[i]) {
      if (UsableBytes(devices[index]) > UsableBytes(*largest)) largest = &devices[index];
    }
    if (layers < tightest_layers) {
      tightest = i;
      tightest_layers = layers;
    }
  }
  // The lack of the tightest stage for one layer, or for all layers that no stage holds.
  const int64_t layers =
      tightest_layers < 1 ? 1 : tightest_layers + std::max<int64_t>(1, model.num_layers - held);
  const bool alone = slots.size() == 1;
  const Lack lack = alone ? LackForAll(slots.front(), model.num_layers, blocks)
                          : LackFor(slots[tightest], layers, blocks);
  // What fits by the size of the largest layer fits anyhow.
  StageCosts most(model, options, kLargestLayer);
  const auto ranks = static_cast<int>(groups.front().size());
  std::string message = absl::StrCat(
      "the model does not fit: with room for only ", blocks * options.block_size,
      " tokens of KV cache, ", used, used == 1 ? " device holds " : " devices hold ", held, " of ",
      model.num_layers, " layers; ", DescribeStage(devices, groups, tightest, lack.rank), " lacks ",
      lack.bytes, " bytes (", SizeRoundedUp(lack.bytes), "). What would fit: ",
      DevicesOf(used, MemoryOfEach(model, &most, slots.size(), ranks, *largest, blocks)));
  const auto more = StagesNeeded(model, &most, ranks, *largest, blocks);
  if (more.has_value() && *more * ranks > used) {
    absl::StrAppend(&message, ", or ", DevicesOf(*more * ranks, largest->memory_bytes));
  }
  if (blocks > options.max_sequences) absl::StrAppend(&message, ", or a shorter context");
  if (options.draft != nullptr) absl::StrAppend(&message, ", or no --draft-model");
  return absl::ResourceExhaustedError(message);
}

absl::Status StageLacks(const std::vector<DeviceSpec>& devices,
                        const std::vector<StageGroup>& groups, size_t stage, const StageSlot& slot,
                        int64_t layers, int64_t blocks, const PlacementOptions& options) {
  const Lack lack = LackFor(slot, layers, blocks);
  const int64_t usable = slot.ranks[lack.rank].memory + lack.bytes;
  const DeviceSpec& device = devices[groups[stage][lack.rank]];
  const int64_t needed =
      device.whole_gpu ? kernels::GpuBytesForUsable(usable, device.cublas) : usable;
  return absl::ResourceExhaustedError(absl::StrCat(
      DescribeStage(devices, groups, stage, lack.rank), " with ", layers, " layers lacks ",
      lack.bytes, " bytes for the least KV room of ", blocks * options.block_size,
      " tokens. What would fit: a device of ", SizeRoundedUp(needed), ", or fewer layers there",
      options.draft != nullptr ? ", or no --draft-model" : ""));
}

}  // namespace tutti::placement
