// The thing that people give as --model when it is no folder of a checkpoint.
//
// Thread: any; reads names of files, and the first bytes of config.json.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::model {

// OK where `given` is a folder with a config.json. INVALID_ARGUMENT says what is there instead (a
// file, a model's name on the Hugging Face hub, the hub's cache, other folders) and what to give.
absl::Status CheckModelFolder(const std::string& given);

// "Qwen/Qwen3-0.6B": an owner and a name of the characters that the Hugging Face hub allows.
bool IsHubName(const std::string& given);

}  // namespace tutti::model
