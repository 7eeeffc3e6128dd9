// config.json: reads a model's hyper-parameters, by the reader of its family.
//
// Threads: pure functions, but for the reading of the file.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "model/model_config.h"

namespace tutti::model {

// Reads the text of a config.json. `file_name` stands in front of every error.
//
// It must say its dtype.
//
// INVALID_ARGUMENT: not JSON, a field missing, of the wrong type or out of its limits; the field is
// named. UNIMPLEMENTED: a well-formed configuration of something we do not run (another
// architecture, quantised weights, sliding windows, an unknown rotary scaling, another
// activation); named, with the supported values where that helps.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json, std::string_view file_name);

// Reads `dir`/config.json. One that does not say its dtype has that of the checkpoint's first
// tensor. NOT_FOUND when there is none; else as above.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& dir);

}  // namespace tutti::model
