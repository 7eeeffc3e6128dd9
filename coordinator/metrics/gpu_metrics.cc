#include "coordinator/metrics/gpu_metrics.h"

#include <vector>

namespace tutti::coordinator {
namespace {

using metrics::Exposition;
using metrics::Kind;
using v1::GpuReading;

struct Gpu {
  const v1::WorkerStatus* worker;
  const GpuReading* reading;
  bool placed;
};

void Collect(const v1::WorkerStatus& worker, bool placed, std::vector<Gpu>* gpus) {
  if (worker.has_gpu()) gpus->push_back({&worker, &worker.gpu(), placed});
}

const struct {
  const char* name;
  const char* help;
  bool (*known)(const GpuReading&);
  double (*value)(const GpuReading&);
} kFigures[] = {
    {"tutti_gpu_busy_ratio", "Of the driver's last period, the share in which some kernel ran.",
     [](const auto& gpu) { return gpu.has_busy_share(); },
     [](const auto& gpu) { return gpu.busy_share(); }},
    {"tutti_gpu_power_watts", "Drawn from the mains.",
     [](const auto& gpu) { return gpu.has_power_watts(); },
     [](const auto& gpu) { return gpu.power_watts(); }},
    {"tutti_gpu_power_limit_watts", "That the GPU may draw.",
     [](const auto& gpu) { return gpu.has_power_limit_watts(); },
     [](const auto& gpu) { return gpu.power_limit_watts(); }},
    {"tutti_gpu_temperature_celsius", "Of the GPU's core.",
     [](const auto& gpu) { return gpu.has_temperature_celsius(); },
     [](const auto& gpu) { return gpu.temperature_celsius(); }},
    {"tutti_gpu_reading_age_seconds", "Since the driver said what the others say.",
     [](const auto& gpu) {
       return gpu.total_bytes() > 0 || gpu.has_busy_share() || gpu.has_power_watts() ||
              gpu.has_temperature_celsius();
     },
     [](const auto& gpu) { return gpu.age_seconds(); }},
};

// Figures of whole GPUs are there whenever memory is, and CUDA's where it is known what the shard
// holds.
const struct {
  const char* kind;
  int64_t (GpuReading::*bytes)() const;
  bool needs_own;
  bool needs_shard;
} kGpuMemories[] = {{"total", &GpuReading::total_bytes, false, false},
                    {"used", &GpuReading::used_bytes, false, false},
                    {"own", &GpuReading::own_bytes, true, false},
                    {"cuda", &GpuReading::cuda_bytes, true, true},
                    {"others", &GpuReading::other_bytes, true, false}};

}  // namespace

void WriteGpus(const v1::GetStatusResponse& status, Exposition* to) {
  std::vector<Gpu> gpus;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    for (const v1::StageStatus& stage : pipeline.stages()) Collect(stage.worker(), true, &gpus);
  }
  for (const v1::WorkerStatus& worker : status.idle_workers()) Collect(worker, false, &gpus);
  to->Begin("tutti_gpu_memory_bytes", Kind::kGauge,
            "Memory of the worker's GPU as its driver counts it, by kind.");
  for (const Gpu& gpu : gpus) {
    if (gpu.reading->total_bytes() == 0) continue;
    for (const auto& memory : kGpuMemories) {
      if (memory.needs_shard && !gpu.placed) continue;
      if (memory.needs_own && gpu.reading->own_bytes() == 0) continue;
      to->Sample({{"worker", gpu.worker->worker_id()}, {"kind", memory.kind}},
                 static_cast<double>((gpu.reading->*memory.bytes)()));
    }
  }
  for (const auto& figure : kFigures) {
    to->Begin(figure.name, Kind::kGauge, figure.help);
    for (const Gpu& gpu : gpus) {
      if (!figure.known(*gpu.reading)) continue;
      to->Sample({{"worker", gpu.worker->worker_id()}}, figure.value(*gpu.reading));
    }
  }
}

}  // namespace tutti::coordinator
