// --device-map: how the layers go to the stages, by Accelerate's name for it, or by a file.
//
// A file is HuggingFace's device map (placement/module_map.h), or our own list of stages:
//
//   [{"worker": "w0", "layers": 20}, {"worker": "w1", "layers": 8}]
//
// where a stage of several ranks names the worker of each, {"worker": ["w1", "w2"], "layers": 8},
// and a number stands for a device by its number.
//
// Threads: pure functions, but for the reading of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"
#include "placement/module_map.h"
#include "placement/placement.h"

namespace tutti::placement {

struct MappedStage {
  std::vector<MappedDevice> devices;  // in rank order; never empty
  int32_t num_layers = 0;
  int32_t ranks() const { return static_cast<int32_t>(devices.size()); }
};

struct DeviceMap {
  DeviceMapMode mode = DeviceMapMode::kAuto;
  std::vector<MappedStage> stages;  // of the file; empty: the mode decides
  std::vector<std::string> notes;   // deviations from the file, for people
};

// `value` is "" (auto), a mode, or the name of a file. `num_devices` negative: not known yet, and
// devices may go by names.
//
// NOT_FOUND: neither a mode nor a file that can be read. INVALID_ARGUMENT names the file and what
// is wrong in it, with the nearest valid choice.
absl::StatusOr<DeviceMap> ReadDeviceMap(const std::string& value, const model::ModelConfig& model,
                                        int64_t num_devices);

// The stages of a file's text, of either form.
absl::StatusOr<DeviceMap> ParseDeviceMap(const std::string& text, const std::string& file,
                                         const model::ModelConfig& model, int64_t num_devices);

// The devices that a map means, in the order of its stages and their ranks: numbers count the
// entries of `names`, which are all devices there are.
//
// NOT_FOUND names the missing device, those that exist, and the nearest of them;
// INVALID_ARGUMENT a device that is named twice, by number and by name.
absl::StatusOr<std::vector<int64_t>> ResolveDevices(const DeviceMap& map,
                                                    const std::vector<std::string>& names);

// Whether numbers, and with them the order of the devices, matter to the map.
bool NamesNumbers(const DeviceMap& map);

// "device 3" or "w1": as the map's author wrote it.
std::string DescribeDevice(const MappedDevice& device);

// "there are 2 devices: 0 (w0) and 1 (w1)", the first few of many.
std::string DescribeDevices(const std::vector<std::string>& names);

}  // namespace tutti::placement
