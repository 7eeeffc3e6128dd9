#include "worker/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

v1::Frame Done(uint64_t epoch, int64_t bytes_out) {
  v1::Frame frame;
  frame.set_epoch(epoch);
  frame.mutable_step_done()->set_compute_us(250'000);
  frame.mutable_step_done()->mutable_activation_out()->set_bytes(bytes_out);
  return frame;
}

TEST(WorkerMetrics, CountOverEpochsWhatEachReportsFromItsBeginning) {
  WorkerMetrics counted;
  counted.OnFrame(Done(1, 100));
  counted.OnFrame(Done(1, 300));
  counted.OnFrame(Done(2, 50));
  v1::Frame result;  // of the last stage
  result.set_epoch(2);
  result.mutable_step_result()->mutable_done()->mutable_activation_out()->set_bytes(60);
  result.mutable_step_result()->mutable_done()->set_draft_us(500'000);
  counted.OnFrame(result);
  v1::Frame other;
  other.set_epoch(3);
  counted.OnFrame(other);
  const Position position;
  metrics::Exposition text;
  counted.Write(position, &text);
  const std::string all = text.Release();
  EXPECT_THAT(all, HasSubstr("tutti_worker_steps_total 4\n"));
  EXPECT_THAT(all, HasSubstr("tutti_worker_epochs_total 2\n"));
  EXPECT_THAT(all, HasSubstr("tutti_worker_compute_seconds_total 0.75\n"));
  EXPECT_THAT(all, HasSubstr("tutti_worker_draft_seconds_total 0.5\n"));
  EXPECT_THAT(all, HasSubstr("tutti_worker_link_bytes_total"
                             "{link=\"activation\",direction=\"out\"} 360\n"));
  EXPECT_THAT(all, HasSubstr("tutti_worker_activity{activity=\"idle\"} 1\n"));
}

TEST(WorkerMetrics, NameTheClassThatIsComputedIn) {
  WorkerMetrics metrics;
  v1::Hello hello;
  hello.set_numerics_class("cpu-bf16dot");
  const auto info = [&] {
    metrics::Exposition text;
    metrics.WriteInfo(hello, &text);
    return text.Release();
  };
  EXPECT_THAT(info(), HasSubstr("numerics=\"cpu-bf16dot\"} 1\n")) << "nothing is loaded";
  metrics.ComputesIn("cpu-f32");
  EXPECT_THAT(info(), HasSubstr("numerics=\"cpu-f32\"} 1\n"));
  metrics.ComputesIn("");
  EXPECT_THAT(info(), HasSubstr("numerics=\"cpu-bf16dot\"} 1\n")) << "in its best";
}

}  // namespace
}  // namespace tutti::worker
