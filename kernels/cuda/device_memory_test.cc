#include "kernels/cuda/device_memory.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace tutti::kernels::cuda {
namespace {

// Memory of the host that counts what is done to it.
class CountingRuntime : public Runtime {
 public:
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    if (!room) return absl::ResourceExhaustedError("full");
    ++allocations;
    ++live;
    return std::calloc(1, static_cast<size_t>(bytes));
  }
  void Free(void* data) override {
    --live;
    std::free(data);
  }
  int64_t FreeBytes() override { return 0; }
  void Upload(void* to, int64_t, const void* from, int64_t, int64_t width, int64_t) override {
    ++uploads;
    if (width > 0) std::memcpy(to, from, static_cast<size_t>(width));
  }
  void Download(void*, int64_t, const void*, int64_t, int64_t, int64_t) override {}
  void Zero(void*, int64_t) override {}
  Stream stream() const override { return nullptr; }
  void Must(int, const char*) override {}
  int allocations = 0, live = 0, uploads = 0;
  bool room = true;
};

TEST(DeviceMemoryTest, WorkSpaceOnlyGrows) {
  CountingRuntime runtime;
  {
    WorkSpace space(&runtime);
    EXPECT_EQ(space.AtLeast(0), nullptr);
    void* const first = space.AtLeast(1000);
    EXPECT_EQ(space.AtLeast(10), first);
    EXPECT_EQ(space.AtLeast(1400), first);
    EXPECT_EQ(runtime.allocations, 1);
    space.AtLeast(5000);
    EXPECT_EQ(runtime.allocations, 2);
    EXPECT_EQ(runtime.live, 1);
  }
  EXPECT_EQ(runtime.live, 0);
}

TEST(DeviceMemoryTest, WhatIsReservedIsNotTakenLater) {
  CountingRuntime runtime;
  {
    WorkSpace space(&runtime);
    ASSERT_TRUE(space.Reserve(1000).ok());
    ASSERT_TRUE(space.Reserve(10).ok());
    space.AtLeast(1000);
    EXPECT_EQ(space.bytes(), 1000);
    EXPECT_EQ(runtime.allocations, 1);
    Uploads uploads(&runtime);
    ASSERT_TRUE(uploads.Reserve(40000).ok());
    EXPECT_EQ(uploads.bytes(), kRememberedUploads * 40000);
    for (int32_t i = 0; i < 20; ++i) {
      uploads.Get(std::span<const int32_t>(std::vector<int32_t>(10000, i)));
    }
    EXPECT_EQ(runtime.allocations, 1 + kRememberedUploads);
    runtime.room = false;
    EXPECT_EQ(space.Reserve(2000).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(space.bytes(), 0) << "the old memory was given back first";
    EXPECT_EQ(uploads.Reserve(50000).code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(runtime.live, 0);
}

TEST(DeviceMemoryTest, WhatIsThereIsNotSentAgain) {
  CountingRuntime runtime;
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
    EXPECT_EQ(get({}), get({}));
    EXPECT_EQ(runtime.uploads, 3);
    // A changed array is sent again, into the memory of the oldest.
    for (int32_t i = 0; i < 100; ++i) {
      a[0] = i + 10;
      EXPECT_EQ(get(a)[0], i + 10);
    }
    EXPECT_EQ(runtime.uploads, 103);
    EXPECT_EQ(runtime.allocations, kRememberedUploads);
  }
  EXPECT_EQ(runtime.live, 0);
}

}  // namespace
}  // namespace tutti::kernels::cuda
