// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::model {

// File -> tensors it should hold; ordered, so that file numbers do not depend on a hash.
using ShardMap = std::map<std::string, std::vector<std::string>>;

// Reads the text of an index. `path` stands in front of every error.
//
// INVALID_ARGUMENT: not JSON, no tensors, more than model/limits.h allows, or a file that is named
// by anything but a plain name: it must lie beside the index.
absl::StatusOr<ShardMap> ParseCheckpointIndex(std::string_view text, const std::string& path);

// The same of a file. NOT_FOUND, UNAVAILABLE: it cannot be read.
absl::StatusOr<ShardMap> LoadCheckpointIndex(const std::string& path);

}  // namespace tutti::model
