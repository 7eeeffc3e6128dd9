#include "client/gpu_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/format.h"

namespace tutti::client {
namespace {

// Readings come every few seconds; of these it need not be said how old they are.
constexpr double kOldSeconds = 10;

// ": weights 40 GiB, K/V 30 GiB, …": of what, as far as it is known.
std::string PartsText(const v1::GpuReading& gpu, const v1::MemoryBytes* held) {
  std::string parts;
  const auto add = [&parts](const char* what, int64_t bytes) {
    if (bytes <= 0) return;
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", what, " ", FormatBytes(bytes));
  };
  if (held != nullptr) {
    add("weights", held->weights());
    add("K/V", held->kv());
    add("work space", held->activations());
  }
  add("CUDA", gpu.cuda_bytes());
  add("other processes", gpu.other_bytes());
  if (!gpu.holders().empty()) absl::StrAppend(&parts, " (", OneLine(gpu.holders()), ")");
  return parts.empty() ? "" : absl::StrCat(": ", parts);
}

}  // namespace

std::string GpuText(const v1::WorkerStatus& worker, const v1::MemoryBytes* held) {
  if (!worker.has_gpu()) return "";
  const v1::GpuReading& gpu = worker.gpu();
  std::string text =
      absl::StrCat("gpu of ", OneLine(worker.worker_id()), ", ", OneLine(gpu.name()), ": ");
  std::string said;
  const auto add = [&said](const std::string& part) {
    absl::StrAppend(&said, said.empty() ? "" : "; ", part);
  };
  if (gpu.total_bytes() > 0) {
    add(absl::StrCat(FormatBytes(gpu.used_bytes()), " of ", FormatBytes(gpu.total_bytes()), " held",
                     PartsText(gpu, held)));
  }
  if (gpu.has_busy_share()) add(absl::StrFormat("%.0f %% busy", gpu.busy_share() * 100));
  if (gpu.has_power_watts()) {
    add(gpu.has_power_limit_watts()
            ? absl::StrFormat("%.0f W of %.0f W", gpu.power_watts(), gpu.power_limit_watts())
            : absl::StrFormat("%.0f W", gpu.power_watts()));
  }
  if (gpu.has_temperature_celsius()) add(absl::StrFormat("%.0f °C", gpu.temperature_celsius()));
  if (gpu.age_seconds() >= kOldSeconds) add(FormatSeconds(gpu.age_seconds()) + " old");
  if (!gpu.trouble().empty()) add(OneLine(gpu.trouble()));
  return absl::StrCat(text, said, "\n");
}

std::string RenderGpus(const v1::GetStatusResponse& status) {
  std::string text;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    for (const v1::StageStatus& stage : pipeline.stages()) {
      absl::StrAppend(&text, GpuText(stage.worker(), &stage.actual()));
    }
  }
  for (const v1::WorkerStatus& worker : status.idle_workers()) {
    absl::StrAppend(&text, GpuText(worker, nullptr));
  }
  return text;
}

}  // namespace tutti::client
