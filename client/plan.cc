#include "client/plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/byte_size.h"
#include "kernels/gpu_memory.h"
#include "model/checkpoint.h"
#include "model/config_json.h"
#include "model/model_folder.h"
#include "model/quant_config.h"
#include "model/quantise_choice.h"
#include "model/quantised_roles.h"
#include "model/weight_map.h"
#include "placement/device_map.h"

namespace tutti::client {
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

absl::StatusOr<model::ModelConfig> LoadConfig(const std::string& path, const char* flag) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    TUTTI_RETURN_IF_ERROR(Annotate(model::CheckModelFolder(path), flag));
    return model::LoadModelConfig(path);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigBytesMax, "a config.json"));
  return model::ParseModelConfig(text, path);
}

// The devices of `devices` that the map uses, in the order of its stages and their ranks, and the
// stages' layers. `all`: before --max-memory left some out.
absl::Status ApplyStages(const placement::DeviceMap& map,
                         const std::vector<placement::DeviceSpec>& all,
                         placement::ClusterOptions* options,
                         std::vector<placement::DeviceSpec>* devices) {
  placement::PlacementOptions& placement = options->placement;
  if (placement.num_ranks != 1 || options->num_pipelines > 1 || placement.num_stages > 0 ||
      !placement.stage_ranks.empty() || !placement.layers.empty()) {
    return absl::InvalidArgumentError(
        "--device-map FILE says itself how many stages there are, of how many devices, and what "
        "they hold; leave out the sizes and --layers");
  }
  std::vector<std::string> names;
  for (const placement::DeviceSpec& device : all) names.push_back(device.name);
  TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> order, placement::ResolveDevices(map, names));
  std::vector<placement::DeviceSpec> ordered;
  for (const int64_t index : order) {
    const auto left = std::find_if(
        devices->begin(), devices->end(),
        [&](const placement::DeviceSpec& device) { return device.name == names[index]; });
    if (left == devices->end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the device map uses ", names[index], ", which --max-memory leaves out; limit it too"));
    }
    ordered.push_back(*left);
  }
  for (const placement::MappedStage& stage : map.stages) {
    placement.layers.push_back(stage.num_layers);
    placement.stage_ranks.push_back(stage.ranks());
  }
  *devices = std::move(ordered);
  return absl::OkStatus();
}

// A model fits also where the longest request does not: such a one is refused when it comes.
void NoteContext(PlanReport* report) {
  int64_t room = INT64_MAX;
  for (const placement::Placement& pipeline : report->plan.pipelines) {
    room = std::min<int64_t>(room, pipeline.kv_tokens());
  }
  const int32_t asked = report->options.placement.max_model_len;
  const int64_t context = asked > 0 ? asked : report->model.max_position_embeddings;
  if (room >= context) return;
  report->notes.push_back(absl::StrCat(
      "one full context of ", context, " tokens does not fit: there is room for ", room,
      " tokens, and longer requests are refused when they come; say --max-model-len ", room,
      ", or --max-model-len ", context, " to see what holds it"));
}

void NoteQuantised(PlanReport* report) {
  if (!report->model.quant.any()) return;
  report->notes.push_back(
      absl::StrCat("the matrices of the layers are quantised: ",
                   model::DescribeFormats(report->model.quant, report->model.num_layers),
                   "; their codes and scales are held as they are"));
  if (report->model.is_quantised(model::Role::kEmbedding, -1)) {
    report->notes.push_back(absl::StrCat("the embedding is quantised too; its rows are held in ",
                                         std::string(DTypeName(report->model.dtype)),
                                         ", as they are looked up"));
  }
}

// Says what a checkpoint beside config.json is converted to. One that is not there, or broken, is
// none of a plan's business.
void NoteConversion(PlanReport* report, const std::string& dir) {
  const auto checkpoint = model::Checkpoint::Open(dir);
  if (!checkpoint.ok()) return;
  std::string note = model::DescribeConversion(report->model, **checkpoint);
  if (!note.empty()) report->notes.push_back(std::move(note));
}

}  // namespace

absl::StatusOr<PlanReport> MakePlan(const PlanRequest& request) {
  PlanReport report{.options = request.options};
  TUTTI_ASSIGN_OR_RETURN(report.model, LoadConfig(request.model, "--model"));
  TUTTI_RETURN_IF_ERROR(model::ApplyQuantise(request.quantise, &report.model));
  report.model.whole_experts = request.whole_experts && report.model.has_experts();
  if (!request.draft_model.empty()) {
    TUTTI_ASSIGN_OR_RETURN(model::ModelConfig draft,
                           LoadConfig(request.draft_model, "--draft-model"));
    report.options.placement.draft = std::make_shared<model::ModelConfig>(std::move(draft));
    report.notes.push_back(
        "the draft model and its keys and values are counted on the first rank of the last stage");
  }
  TUTTI_ASSIGN_OR_RETURN(placement::DeviceMap map,
                         placement::ReadDeviceMap(request.device_map, report.model,
                                                  static_cast<int64_t>(request.devices.size())));
  std::vector<placement::DeviceSpec> all = request.devices;
  for (placement::DeviceSpec& device : all) {
    device.cublas = request.cublas && device.whole_gpu;
    if (device.kind != DeviceKind::kCpu) continue;
    device.memory_bytes -= std::clamp<int64_t>(request.kept_rows_bytes, 0, device.memory_bytes);
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<placement::DeviceSpec> devices,
                         placement::LimitMemory(request.max_memory, all));
  report.options.placement.mode = map.mode;
  if (!map.stages.empty()) {
    TUTTI_RETURN_IF_ERROR(ApplyStages(map, request.devices, &report.options, &devices));
  }
  report.notes = std::move(map.notes);
  if (std::any_of(devices.begin(), devices.end(), [](const auto& d) { return d.whole_gpu; })) {
    report.notes.push_back(absl::StrFormat(
        "of each GPU %s are left to CUDA%s (assumed, not measured), and of the rest %.0f %%, as "
        "workers do without --memory; \"memory\" is what remains",
        FormatBytes(kernels::GpuBytesNotOffered(request.cublas)),
        request.cublas ? " and cuBLASLt" : "", 100 * (1 - kernels::kGpuOfferedShare)));
  }
  if (request.kept_rows_bytes > 0) {
    report.notes.push_back(
        absl::StrCat("of each CPU's memory ", FormatBytes(request.kept_rows_bytes),
                     " are set apart for rows that it has sent on; \"memory\" is "
                     "what remains"));
  }
  TUTTI_ASSIGN_OR_RETURN(report.plan,
                         placement::PlanCluster(report.model, devices, report.options));
  NoteQuantised(&report);
  NoteContext(&report);
  if (request.quantise.scheme.empty()) NoteConversion(&report, request.model);
  for (const placement::Placement& pipeline : report.plan.pipelines) {
    report.predictions.push_back(placement::Predict(pipeline, report.options.placement,
                                                    report.model.max_position_embeddings));
  }
  return report;
}

}  // namespace tutti::client
