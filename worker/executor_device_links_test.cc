// Executors whose devices link: rows of a step from stage to stage without the hosts' memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/executor_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

class LinkedExecutorTest : public ExecutorTest {
 protected:
  LinkedExecutorTest() {
    linked_ = true;
    for (int i = 0; i < 3; ++i) {
      workers_.push_back(StartWorker("w" + std::to_string(i)));
      joined_.push_back(coordinator_.Welcome());
    }
  }
  // All three ready in `epoch`, and linked.
  void Form(uint64_t epoch) {
    for (int i : {2, 0, 1}) joined_[i]->Send(Assign(epoch, i, 3));
    for (auto& worker : joined_) worker->recorder->Await(v1::Frame::kShardReady);
    const Instant give_up = clock_.Now() + kPatience;
    while (devices_.standing() < 4 && clock_.Now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(devices_.standing(), 4);
  }
  void Plan(uint64_t epoch, uint64_t step, const std::vector<int32_t>& tokens) {
    for (auto& worker : joined_) worker->Send(PlanFrame(epoch, step, tokens));
  }
  int32_t AwaitToken() {
    return joined_[2]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token();
  }

  std::vector<std::unique_ptr<Executor>> workers_;
  std::vector<std::unique_ptr<FakeCoordinator::Joined>> joined_;
};

TEST_F(LinkedExecutorTest, RowsPassFromDeviceToDeviceInEveryEpoch) {
  int64_t transfers = 0;
  for (const uint64_t epoch : {1, 2}) {
    Form(epoch);
    // The first may come before the word that the links stand.
    for (int32_t step = 1; step <= 200 && devices_.transfers() < transfers + 20; ++step) {
      Plan(epoch, step, {1, 2, 3, step});
      EXPECT_EQ(AwaitToken(), step + 3);
    }
    EXPECT_GE(devices_.transfers(), transfers + 20);
    transfers = devices_.transfers();
  }
  const v1::Frame done = joined_[0]->recorder->Await(v1::Frame::kStepDone);
  EXPECT_GE(done.step_done().activation_out().bytes(), 4 * kRowBytes);
}

TEST_F(LinkedExecutorTest, RowsThatGetStuckBetweenDevicesAreNamedAndTheNextEpochServes) {
  Form(1);
  devices_.set_stuck(true);
  const Instant give_up = clock_.Now() + kPatience;
  uint64_t step = 0;
  // Runs until the first that goes from device to device.
  while (joined_[1]->recorder->Count(v1::Frame::kFailure) == 0 && clock_.Now() < give_up) {
    if (step < 5) Plan(1, ++step, {7});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(joined_[1]->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("device link from w0: rows that were sent have not come"));
  for (int i = 0; i < 3; ++i) joined_[i]->Send(Assign(2, i, 3));
  Plan(2, 1, {30});
  EXPECT_EQ(AwaitToken(), 33);
}

TEST_F(LinkedExecutorTest, ANewEpochEndsTheWaitForRowsWithoutBlame) {
  Form(1);
  devices_.set_stuck(true);
  for (uint64_t step = 1; step <= 3; ++step) Plan(1, step, {7});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  devices_.set_stuck(false);
  for (int i = 0; i < 3; ++i) joined_[i]->Send(Assign(2, i, 3));
  Plan(2, 1, {30});
  v1::Frame result;
  do {
    result = joined_[2]->recorder->Await(v1::Frame::kStepResult);
  } while (result.epoch() == 1);
  EXPECT_EQ(result.step_result().sampled(0).token(), 33);
  for (auto& worker : joined_) EXPECT_EQ(worker->recorder->Count(v1::Frame::kFailure), 0u);
}

TEST_F(LinkedExecutorTest, WhoSaysThatALinkStandsWithoutOneIsTurnedAway) {
  joined_[1]->Send(Assign(1, 1, 3));
  joined_[1]->recorder->Await(v1::Frame::kShardReady);
  // Rows on the device from a peer that was never told that they may come.
  auto recorder = std::make_shared<Recorder>();
  auto link = dialer_->Dial("unix:at-w1", std::make_unique<RecordingHandler>(recorder));
  v1::Frame hello;
  hello.set_epoch(1);
  hello.mutable_hello()->set_protocol_version(1);
  hello.mutable_hello()->set_cluster_id("cluster");
  hello.mutable_hello()->set_worker_id("w0");
  hello.mutable_hello()->set_build("build");
  hello.mutable_hello()->set_model_fingerprint("model");
  hello.mutable_hello()->set_purpose(v1::LINK_PURPOSE_ACTIVATION);
  EXPECT_EQ(link->Send(std::move(hello)), absl::OkStatus());
  EXPECT_EQ(recorder->Await(v1::Frame::kWelcome).welcome().device_link(), "");
  v1::Frame rows;
  rows.set_epoch(1);
  v1::Activation* chunk = rows.mutable_activation();
  chunk->set_step(1);
  chunk->set_rows(1);
  chunk->set_total_rows(1);
  chunk->set_row_bytes(kRowBytes);
  chunk->set_on_device(true);
  EXPECT_EQ(link->Send(std::move(rows)), absl::OkStatus());
  EXPECT_THAT(joined_[1]->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("no device link stands"));
}

}  // namespace
}  // namespace tutti::worker
