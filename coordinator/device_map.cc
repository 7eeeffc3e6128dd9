#include "coordinator/device_map.h"

#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/engine_loop.h"
#include "nlohmann/json.hpp"

namespace tutti {

absl::StatusOr<std::vector<EngineOptions::StageOverride>> ParseDeviceMap(const std::string& text,
                                                                         const std::string& file,
                                                                         const ModelConfig& model) {
  const auto bad = [&file](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("device map ", file, ": ", what...));
  };
  const nlohmann::json map = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!map.is_array() || map.empty()) {
    return bad("must be a JSON array like [{\"worker\": \"w0\", \"layers\": 12}, …]");
  }
  std::vector<EngineOptions::StageOverride> stages;
  std::set<std::string> workers;
  int64_t layers = 0;
  for (size_t i = 0; i < map.size(); ++i) {
    const nlohmann::json& entry = map[i];
    if (!entry.is_object() || !entry.contains("worker") || !entry["worker"].is_string() ||
        !IsPlainName(entry["worker"].get<std::string>())) {
      return bad("[", i, "].worker must be a worker id ([A-Za-z0-9._-]{1,128})");
    }
    if (!entry.contains("layers") || !entry["layers"].is_number_unsigned() ||
        entry["layers"].get<uint64_t>() < 1 ||
        entry["layers"].get<uint64_t>() > static_cast<uint64_t>(model.num_layers)) {
      return bad("[", i, "].layers must be a number from 1 to ", model.num_layers);
    }
    EngineOptions::StageOverride stage;
    stage.worker_id = entry["worker"].get<std::string>();
    stage.num_layers = entry["layers"].get<int32_t>();
    if (!workers.insert(stage.worker_id).second) {
      return bad("worker '", stage.worker_id, "' is named twice");
    }
    layers += stage.num_layers;
    stages.push_back(std::move(stage));
  }
  if (layers != model.num_layers) {
    return bad("the layers add up to ", layers, ", the model has ", model.num_layers);
  }
  return stages;
}

absl::StatusOr<std::vector<EngineOptions::StageOverride>> LoadDeviceMap(const std::string& file,
                                                                        const ModelConfig& model) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat("--device-map: cannot read ", file));
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return ParseDeviceMap(text, file, model);
}

}  // namespace tutti
