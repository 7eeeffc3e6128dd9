#include "coordinator/device_map.h"

#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/engine_loop.h"
#include "model/partition.h"
#include "nlohmann/json.hpp"

namespace tutti {
namespace {

// The workers of an entry, in rank order; empty when they are not named as they should be.
std::vector<std::string> WorkersOf(const nlohmann::json& entry) {
  if (!entry.is_object() || !entry.contains("worker")) return {};
  const nlohmann::json& worker = entry["worker"];
  std::vector<std::string> names;
  const nlohmann::json one = nlohmann::json::array({worker});
  for (const nlohmann::json& name : worker.is_array() ? worker : one) {
    if (!name.is_string() || !IsPlainName(name.get<std::string>())) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

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
    const std::vector<std::string> names = WorkersOf(entry);
    if (names.empty()) {
      return bad("[", i, "].worker must be a worker id ([A-Za-z0-9._-]{1,128}), or a list of them");
    }
    if (!entry.contains("layers") || !entry["layers"].is_number_unsigned() ||
        entry["layers"].get<uint64_t>() < 1 ||
        entry["layers"].get<uint64_t>() > static_cast<uint64_t>(model.num_layers)) {
      return bad("[", i, "].layers must be a number from 1 to ", model.num_layers);
    }
    EngineOptions::StageOverride stage;
    stage.worker_id = names.front();
    stage.further_ranks.assign(names.begin() + 1, names.end());
    stage.num_layers = entry["layers"].get<int32_t>();
    for (const std::string& name : names) {
      if (!workers.insert(name).second) return bad("worker '", name, "' is named twice");
    }
    if (const absl::Status status = CheckRanks(model, stage.ranks()); !status.ok()) {
      return bad("[", i, "].worker: ", status.message());
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
