#include "kernels/cuda/launch_queue.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime_testing.h"

namespace tutti::kernels::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LaunchQueueTest : public ::testing::Test {
 protected:
  void Start(int64_t first, int64_t last) {
    for (int64_t i = first; i <= last; ++i) queue_.Start(FakeLaunch(i, 0));
  }

  FakeDevice* const device_ = new FakeDevice();
  LaunchQueue queue_{std::unique_ptr<Runtime>(device_), {}};
  char bytes_[8] = {};
};

TEST_F(LaunchQueueTest, WhateverNeedsOrderWithLaunchesFindsThemStarted) {
  Start(1, 1);
  EXPECT_THAT(device_->log, IsEmpty());
  queue_.Upload(bytes_, 8, bytes_, 8, 8, 1);
  Start(2, 2);
  queue_.Download(bytes_, 8, bytes_, 8, 8, 1);
  Start(3, 3);
  queue_.Zero(bytes_, 8);
  Start(4, 4);
  EXPECT_EQ(queue_.stream(), device_);
  Start(5, 5);
  queue_.EndStep();
  EXPECT_THAT(device_->log,
              ElementsAre("1", "upload", "2", "download", "3", "zero", "4", "stream", "5"));
  Start(6, 6);
  queue_.Free(*queue_.Allocate(8));
  EXPECT_EQ(device_->log.back(), "6");
}

TEST_F(LaunchQueueTest, UploadsThatNobodyWaitsForGoAhead) {
  Start(1, 1);
  queue_.UploadAhead(bytes_, "abcdefg", 8);
  EXPECT_THAT(device_->log, ElementsAre("upload"));
  EXPECT_STREQ(bytes_, "abcdefg");
}

TEST_F(LaunchQueueTest, AStepsLaunchesAreOneGraph) {
  for (int step = 0; step < 3; ++step) {
    Start(1, 5);
    queue_.EndStep();
  }
  EXPECT_THAT(device_->log, ElementsAre("1", "2", "3", "4", "5", "[1 2 3 4 5]", "[1 2 3 4 5]"));
  EXPECT_EQ(queue_.steps(), 3);
}

TEST_F(LaunchQueueTest, LongStepsAreCutAtTheSamePlaces) {
  for (int step = 0; step < 2; ++step) {
    Start(1, kListLaunches - 1);
    const size_t before = device_->log.size();
    Start(kListLaunches, 2 * kListLaunches + 7);
    EXPECT_GT(device_->log.size(), before) << "the device begins before the step is whole";
    queue_.EndStep();
  }
  EXPECT_EQ(queue_.counts().graphs_made, 3);
  EXPECT_EQ(queue_.counts().kernels_by_graphs, 2 * kListLaunches + 7);
}

// While the device has nothing to do, the host does not record for long. Nor does a step depend on
// what was before it: it would be other lists, and other graphs.
TEST_F(LaunchQueueTest, AListIsShortUnlessTheOneBeforeWasFull) {
  const auto started_by = [&](int64_t launches) {
    device_->log.clear();
    Start(1, launches);
    return static_cast<int64_t>(device_->log.size());
  };
  EXPECT_EQ(started_by(kFirstListLaunches), kFirstListLaunches);
  EXPECT_EQ(started_by(kListLaunches - 1), 0);
  queue_.Download(bytes_, 8, bytes_, 8, 8, 1);
  EXPECT_EQ(started_by(kFirstListLaunches + 1), 1) << "a graph";
  queue_.EndStep();
  EXPECT_EQ(started_by(kFirstListLaunches), 1);
  EXPECT_EQ(started_by(kListLaunches), kListLaunches);
  queue_.EndStep();
  EXPECT_EQ(started_by(kFirstListLaunches), 1) << "behind a step that ended with a full list";
  Start(1, 3);
  queue_.Free(*queue_.Allocate(8));
  EXPECT_EQ(started_by(kFirstListLaunches), 1) << "as while a model is loaded";
  Start(1, 3);
  queue_.Upload(bytes_, 8, bytes_, 8, 8, 1);
  EXPECT_EQ(started_by(kFirstListLaunches), 1);
  static_assert(kFirstListLaunches >= kGraphLaunchesMin);
}

// A kernel may begin while the one before it ends only where that one is in the same list: all
// else is on the stream is waited for.
TEST_F(LaunchQueueTest, TheFirstOfAListBeginsWhenAllBeforeHasEnded) {
  KernelLaunch launch = FakeLaunch(1, 0);
  launch.early = 1;
  const auto start_two = [&](LaunchQueue* queue) {
    for (int i = 0; i < 2; ++i) queue->Start(launch);
    queue->EndStep();
  };
  start_two(&queue_);
  EXPECT_THAT(device_->early, ElementsAre(0, 1));
  for (int i = 0; i < 3; ++i) queue_.Start(launch);
  queue_.Upload(bytes_, 8, bytes_, 8, 8, 1);
  start_two(&queue_);
  EXPECT_THAT(device_->early, ElementsAre(0, 1, 0, 1, 1, 0, 1));
}

TEST(LaunchQueueWithoutEarlyTest, NoKernelBeginsEarly) {
  auto* const device = new FakeDevice();
  LaunchQueue queue(std::unique_ptr<Runtime>(device), {}, false);
  KernelLaunch launch = FakeLaunch(1, 0);
  launch.early = 1;
  for (int i = 0; i < 6; ++i) queue.Start(launch);
  queue.EndStep();
  EXPECT_THAT(device->early, ::testing::Each(0));
}

}  // namespace
}  // namespace tutti::kernels::cuda
