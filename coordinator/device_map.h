// --device-map FILE: which worker serves how many layers, in order of stages.
//
//   [{"worker": "w0", "layers": 20}, {"worker": "w1", "layers": 8}]
//
// A stage of several ranks names the worker of each: {"worker": ["w1", "w2"], "layers": 8}.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "coordinator/engine.h"

namespace tutti {

// INVALID_ARGUMENT names the file, the entry and the field: a worker twice, a layer count that is
// no positive number, a sum that is not the model's number of layers.
absl::StatusOr<std::vector<EngineOptions::StageOverride>> LoadDeviceMap(const std::string& file,
                                                                        const ModelConfig& model);
absl::StatusOr<std::vector<EngineOptions::StageOverride>> ParseDeviceMap(const std::string& text,
                                                                         const std::string& file,
                                                                         const ModelConfig& model);

}  // namespace tutti
