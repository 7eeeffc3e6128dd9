#include "client/plan.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "coordinator/module_map.h"

namespace tutti {
namespace {

// A real config.json has about 1 KiB; one megabyte is none.
constexpr int64_t kConfigBytesMax = 1 << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t bytes_max, const char* what) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > static_cast<uintmax_t>(bytes_max)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not ", what, ": larger than ", FormatBytes(bytes_max)));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (error || !file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return text.str();
}

absl::StatusOr<ModelConfig> LoadConfig(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return LoadModelConfig(path);
  TUTTI_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigBytesMax, "a config.json"));
  return ParseModelConfig(text, path);
}

// The devices in the order of the map's stages, and the stages' layers.
absl::Status ApplyModuleMap(const PlanRequest& request, const ModelConfig& model,
                            ClusterOptions* options, std::vector<DeviceSpec>* devices,
                            std::vector<std::string>* notes) {
  PlacementOptions& placement = options->placement;
  if (placement.num_ranks > 1 || options->num_pipelines > 1 || placement.num_stages > 0 ||
      !placement.stage_ranks.empty() || !placement.layers.empty()) {
    return absl::InvalidArgumentError(
        "--device-map FILE says itself how many stages there are, of one device each, and what "
        "they hold; leave out the sizes and --layers");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string text,
                         ReadFile(request.device_map, kModuleMapBytesMax, "a device map"));
  TUTTI_ASSIGN_OR_RETURN(
      const ModuleMap map,
      ParseModuleMap(text, request.device_map, model, static_cast<int64_t>(devices->size())));
  std::vector<DeviceSpec> ordered;
  for (const ModuleMap::Stage& stage : map.stages) {
    ordered.push_back((*devices)[stage.device.index]);
    placement.layers.push_back(stage.num_layers);
  }
  placement.num_ranks = 1;
  *devices = std::move(ordered);
  *notes = map.notes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanReport> MakePlan(const PlanRequest& request) {
  PlanReport report{.options = request.options};
  TUTTI_ASSIGN_OR_RETURN(report.model, LoadConfig(request.model));
  std::vector<DeviceSpec> devices = request.devices;
  const std::optional<DeviceMapMode> mode = ParseDeviceMapMode(request.device_map);
  if (mode.has_value()) {
    report.options.placement.mode = *mode;
  } else if (!request.device_map.empty()) {
    TUTTI_RETURN_IF_ERROR(
        ApplyModuleMap(request, report.model, &report.options, &devices, &report.notes));
  }
  TUTTI_ASSIGN_OR_RETURN(devices, LimitMemory(request.max_memory, devices));
  TUTTI_ASSIGN_OR_RETURN(report.plan, PlanCluster(report.model, devices, report.options));
  for (const PlacementPlan& pipeline : report.plan.pipelines) {
    report.predictions.push_back(
        Predict(pipeline, report.options.placement, report.model.max_position_embeddings));
  }
  return report;
}

}  // namespace tutti
