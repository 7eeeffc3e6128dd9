// The index of a sharded checkpoint from outside: refused, or a table of files that lie beside it.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/checkpoint_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto shards = tutti::model::ParseCheckpointIndex(
      std::string_view(reinterpret_cast<const char*>(data), size), "index");
  if (!shards.ok()) return 0;
  CHECK(!shards->empty());
  for (const auto& [file, tensors] : *shards) {
    CHECK(!file.empty() && file != ".." && file.find('/') == std::string::npos) << file;
    CHECK(!tensors.empty()) << file;
  }
  return 0;
}
