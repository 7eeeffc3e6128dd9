#include "client/gpu_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status_view.h"

namespace tutti::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

v1::GetStatusResponse OneGpu() {
  v1::GetStatusResponse status;
  v1::StageStatus* const stage = status.add_pipelines()->add_stages();
  stage->mutable_actual()->set_weights(40 * kGiB);
  stage->mutable_actual()->set_kv(20 * kGiB);
  stage->mutable_worker()->set_worker_id("w0");
  v1::GpuReading* const gpu = stage->mutable_worker()->mutable_gpu();
  gpu->set_name("NVIDIA H200");
  gpu->set_total_bytes(80 * kGiB);
  gpu->set_used_bytes(69 * kGiB);
  gpu->set_own_bytes(61 * kGiB);
  gpu->set_cuda_bytes(1 * kGiB);
  gpu->set_other_bytes(8 * kGiB);
  gpu->set_holders("pid 123 python3: 8.0 GiB");
  gpu->set_busy_share(0.37);
  gpu->set_power_watts(412.4);
  gpu->set_power_limit_watts(700);
  gpu->set_temperature_celsius(61);
  gpu->set_age_seconds(1);
  return status;
}

TEST(GpuViewTest, SaysWhoHoldsTheMemoryAndHowTheGpuIs) {
  EXPECT_EQ(RenderGpus(OneGpu()),
            "gpu of w0, NVIDIA H200: 69.0 GiB of 80.0 GiB held: weights 40.0 GiB, K/V 20.0 GiB, "
            "CUDA 1.0 GiB, other processes 8.0 GiB (pid 123 python3: 8.0 GiB); 37 % busy; 412 W "
            "of 700 W; 61 °C\n");
  EXPECT_THAT(RenderStatus(OneGpu(), Style(-1)), HasSubstr("gpu of w0, NVIDIA H200: 69.0 GiB"));
}

TEST(GpuViewTest, LeavesOutWhatIsNotKnown) {
  v1::GetStatusResponse status;
  EXPECT_EQ(RenderGpus(status), "");
  v1::WorkerStatus* const idle = status.add_idle_workers();
  EXPECT_EQ(RenderGpus(status), "");
  idle->set_worker_id("w9");
  idle->mutable_gpu()->set_name("L4");
  idle->mutable_gpu()->set_total_bytes(24 * kGiB);
  idle->mutable_gpu()->set_power_watts(30);
  EXPECT_EQ(RenderGpus(status), "gpu of w9, L4: 0 B of 24.0 GiB held; 30 W\n");
}

TEST(GpuViewTest, OldFiguresSayHowOldAndWhy) {
  v1::GetStatusResponse status = OneGpu();
  v1::GpuReading* const gpu =
      status.mutable_pipelines(0)->mutable_stages(0)->mutable_worker()->mutable_gpu();
  gpu->set_age_seconds(125);
  gpu->set_trouble("the driver has not\nanswered for 125 s");
  const std::string text = RenderGpus(status);
  EXPECT_THAT(text, HasSubstr("2 min 5 s old; the driver has not"));
  EXPECT_THAT(text, Not(HasSubstr("not\n")));
}

}  // namespace
}  // namespace tutti::client
