// HuggingFace's device_map as a file: which device holds which module, by the names of the
// checkpoint.
//
//   {"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": "cuda:1", "model.norm": 1,
//    "lm_head": 1}
//
// As in Accelerate, a module goes where its longest prefix in the map goes, and "" is every
// module. A stage is a run of whole layers here, so the map must be one too.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"

namespace tutti::placement {

// A device by number, or by name where the number is negative.
struct MappedDevice {
  int64_t index = -1;
  std::string name;
  bool operator==(const MappedDevice&) const = default;
};

struct ModuleMap {
  struct Stage {
    MappedDevice device;
    int32_t num_layers = 0;
  };
  std::vector<Stage> stages;  // in the order of the layers
  // Deviations from the map, for people: a tied head is held by the last stage too.
  std::vector<std::string> notes;
};

// More devices than any cluster has; 2^63 would not be a number of one.
inline constexpr uint64_t kDeviceNumberMax = 1'000'000;

// Largest file: the map of 1,000 layers given module by module has about 1 MiB.
inline constexpr int64_t kModuleMapBytesMax = 4 << 20;

// INVALID_ARGUMENT names the file, the module or device at fault and the nearest valid choice: a
// module the model does not have, one given twice, one that is given no device, a layer split over
// devices, a device left and used again, an end of the model that is not with the layer next to it,
// devices that are not accelerators ("cpu", "disk"). `num_devices` negative: not known yet.
absl::StatusOr<ModuleMap> ParseModuleMap(const std::string& text, const std::string& file,
                                         const model::ModelConfig& model, int64_t num_devices);

}  // namespace tutti::placement
