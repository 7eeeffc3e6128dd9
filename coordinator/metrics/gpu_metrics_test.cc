#include "coordinator/metrics/gpu_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const v1::GetStatusResponse& status) {
  metrics::Exposition text;
  WriteGpus(status, &text);
  return text.Release();
}

TEST(GpuMetrics, TellWhatTheDriverSays) {
  v1::GetStatusResponse status;
  v1::WorkerStatus* const placed = status.add_pipelines()->add_stages()->mutable_worker();
  placed->set_worker_id("w0");
  v1::GpuReading* const gpu = placed->mutable_gpu();
  gpu->set_total_bytes(80);
  gpu->set_used_bytes(70);
  gpu->set_own_bytes(60);
  gpu->set_cuda_bytes(5);
  gpu->set_other_bytes(10);
  gpu->set_busy_share(0.5);
  gpu->set_power_watts(400);
  gpu->set_temperature_celsius(61);
  gpu->set_age_seconds(1.5);
  v1::WorkerStatus* const idle = status.add_idle_workers();
  idle->set_worker_id("w1");
  idle->mutable_gpu()->set_total_bytes(24);
  v1::WorkerStatus* const spare = status.add_idle_workers();
  spare->set_worker_id("w2");
  spare->mutable_gpu()->set_total_bytes(24);
  spare->mutable_gpu()->set_own_bytes(1);
  const std::string text = Text(status);
  for (const char* line :
       {"tutti_gpu_memory_bytes{worker=\"w0\",kind=\"total\"} 80\n",
        "tutti_gpu_memory_bytes{worker=\"w0\",kind=\"own\"} 60\n",
        "tutti_gpu_memory_bytes{worker=\"w0\",kind=\"cuda\"} 5\n",
        "tutti_gpu_memory_bytes{worker=\"w0\",kind=\"others\"} 10\n",
        "tutti_gpu_memory_bytes{worker=\"w1\",kind=\"used\"} 0\n",
        "tutti_gpu_busy_ratio{worker=\"w0\"} 0.5\n", "tutti_gpu_power_watts{worker=\"w0\"} 400\n",
        "tutti_gpu_temperature_celsius{worker=\"w0\"} 61\n",
        "tutti_gpu_reading_age_seconds{worker=\"w0\"} 1.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  for (const char* unknown : {"worker=\"w1\",kind=\"own\"", "worker=\"w2\",kind=\"cuda\"",
                              "power_limit_watts{", "busy_ratio{worker=\"w1\"}"}) {
    EXPECT_THAT(text, Not(HasSubstr(unknown)));
  }
}

TEST(GpuMetrics, HaveNoSamplesWithoutGpus) {
  v1::GetStatusResponse status;
  status.add_idle_workers()->set_worker_id("w0");
  EXPECT_THAT(Text(status), Not(HasSubstr("w0")));
}

}  // namespace
}  // namespace tutti::coordinator
