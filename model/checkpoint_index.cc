#include "model/checkpoint_index.h"

#include "absl/strings/str_cat.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "nlohmann/json.hpp"

namespace tutti::model {
namespace {

// A shard is a file beside the index: a name with a directory in it would reach files outside of
// the checkpoint.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

absl::StatusOr<ShardMap> ParseCheckpointIndex(std::string_view text, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, path, kIndexBytesMax));
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": weight_map is missing or not an object"));
  }
  if (static_cast<int64_t>(map->size()) > kTensorsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", map->size(), " tensors, more than the limit of ", kTensorsMax));
  }
  ShardMap shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsPlainName(file.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map entry ", Quoted(tensor),
                                                     " does not name a file beside the index"));
    }
    shards[file.get<std::string>()].push_back(tensor);
    if (shards.size() > kShardFilesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": more than the limit of ", kShardFilesMax, " shards"));
    }
  }
  if (shards.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map is empty"));
  }
  return shards;
}

}  // namespace tutti::model
