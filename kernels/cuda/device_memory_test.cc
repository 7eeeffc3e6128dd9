#include "kernels/cuda/device_memory.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/runtime_testing.h"

namespace tutti::kernels::cuda {
namespace {

TEST(DeviceMemoryTest, WorkSpaceOnlyGrows) {
  FakeDevice* const device = new FakeDevice();
  LaunchQueue runtime{std::unique_ptr<Runtime>(device), {}};
  {
    WorkSpace space(&runtime);
    EXPECT_EQ(space.AtLeast(0), nullptr);
    void* const first = space.AtLeast(1000);
    EXPECT_EQ(space.AtLeast(10), first);
    EXPECT_EQ(space.AtLeast(1400), first);
    EXPECT_EQ(device->allocations, 1);
    space.AtLeast(5000);
    EXPECT_EQ(device->allocations, 2);
    EXPECT_EQ(device->live, 1);
  }
  EXPECT_EQ(device->live, 0);
}

TEST(DeviceMemoryTest, WhatIsReservedIsNotTakenLater) {
  FakeDevice* const device = new FakeDevice();
  LaunchQueue runtime{std::unique_ptr<Runtime>(device), {}};
  {
    WorkSpace space(&runtime);
    ASSERT_TRUE(space.Reserve(1000).ok());
    ASSERT_TRUE(space.Reserve(10).ok());
    space.AtLeast(1000);
    EXPECT_EQ(space.bytes(), 1000);
    EXPECT_EQ(device->allocations, 1);
    Uploads uploads(&runtime);
    ASSERT_TRUE(uploads.Reserve(40000).ok());
    EXPECT_EQ(uploads.bytes(), kRememberedUploads * 40000);
    for (int32_t i = 0; i < 20; ++i) {
      uploads.Get(std::span<const int32_t>(std::vector<int32_t>(10000, i)));
    }
    EXPECT_EQ(device->allocations, 1 + kRememberedUploads);
    device->room = false;
    EXPECT_EQ(space.Reserve(2000).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(space.bytes(), 0) << "the old memory was given back first";
    EXPECT_EQ(uploads.Reserve(50000).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(device->live, 0);
}

TEST(DeviceMemoryTest, WhatIsGivenBackIsTakenAnew) {
  FakeDevice* const device = new FakeDevice();
  LaunchQueue runtime{std::unique_ptr<Runtime>(device), {}};
  {
    WorkSpace space(&runtime);
    Uploads uploads(&runtime);
    for (const int64_t bytes : {8000, 5000}) {
      ASSERT_TRUE(space.Reserve(bytes).ok());
      ASSERT_TRUE(uploads.Reserve(bytes).ok());
      EXPECT_EQ(space.bytes(), bytes);
      EXPECT_EQ(uploads.bytes(), kRememberedUploads * bytes);
      uploads.Get(std::span<const int32_t>(std::vector<int32_t>{1, 2, 3}));
      space.GiveBack();
      uploads.GiveBack();
      EXPECT_EQ(device->live, 0);
      EXPECT_EQ(space.bytes() + uploads.bytes(), 0);
    }
  }
  EXPECT_EQ(device->live, 0);
}

TEST(DeviceMemoryTest, WhatIsThereIsNotSentAgain) {
  FakeDevice* const device = new FakeDevice();
  LaunchQueue runtime{std::unique_ptr<Runtime>(device), {}};
  {
    Uploads uploads(&runtime);
    std::vector<int32_t> a = {1, 2, 3}, b = {4};
    const auto get = [&](const std::vector<int32_t>& v) {
      return uploads.Get(std::span<const int32_t>(v));
    };
    const int32_t* const first = get(a);
    EXPECT_EQ(first[2], 3);
    EXPECT_EQ(get(b)[0], 4);
    EXPECT_EQ(get(a), first);
    EXPECT_EQ(get({}), nullptr);
    EXPECT_EQ(device->uploads, 2);
    // A changed array is sent again, into the memory of the oldest.
    for (int32_t i = 0; i < 100; ++i) {
      a[0] = i + 10;
      EXPECT_EQ(get(a)[0], i + 10);
    }
    EXPECT_EQ(device->uploads, 102);
    EXPECT_EQ(device->allocations, kRememberedUploads);
  }
  EXPECT_EQ(device->live, 0);
}

// Equal steps find their arrays at equal addresses, with any contents, and no launch waits
// for a copy.
TEST(DeviceMemoryTest, StepsRepeatTheirAddresses) {
  FakeDevice* const device = new FakeDevice();
  LaunchQueue queue{std::unique_ptr<Runtime>(device), {}};
  Uploads uploads(&queue);
  const auto get = [&](int32_t value) {
    return uploads.Get(std::span<const int32_t>(std::vector<int32_t>{value, 1}));
  };
  // Two layers of each of two kinds, one of whose arrays is the same in all steps.
  std::vector<const int32_t*> before;
  for (int32_t step = 0; step < 10; ++step) {
    std::vector<const int32_t*> addresses;
    for (const int32_t value : {100 + step, -5, 100 + step, -5}) {
      addresses.push_back(get(value));
      EXPECT_EQ(addresses.back()[0], value);
      queue.Start(FakeLaunch(0, value));
    }
    EXPECT_EQ(device->starts, 4 * step) << "nothing was flushed within the step";
    queue.EndStep();
    if (step > 1) {
      EXPECT_EQ(addresses, before);
    }
    before = addresses;
  }
  EXPECT_EQ(device->allocations, 2);
  EXPECT_LE(device->uploads, 12);
}

// With more contents in a step than are remembered, one is replaced that recorded launches read.
TEST(DeviceMemoryTest, WhatRecordedLaunchesReadIsReplacedAfterThem) {
  FakeDevice* const device = new FakeDevice();
  LaunchQueue queue{std::unique_ptr<Runtime>(device), {}};
  Uploads uploads(&queue);
  for (int32_t i = 0; i < kRememberedUploads; ++i) {
    uploads.Get(std::span<const int32_t>(std::vector<int32_t>{i}));
    queue.Start(FakeLaunch(0, i));
  }
  EXPECT_EQ(device->starts, 0);
  uploads.Get(std::span<const int32_t>(std::vector<int32_t>{99}));
  EXPECT_EQ(device->starts, kRememberedUploads);
  EXPECT_EQ(device->log.back(), "upload");
}

}  // namespace
}  // namespace tutti::kernels::cuda
