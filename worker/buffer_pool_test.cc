#include "worker/buffer_pool.h"

#include <gtest/gtest.h>

#include <thread>

namespace tutti::worker {
namespace {

TEST(BufferPool, GivesTheSameMemoryAgain) {
  BufferPool pool(100);
  auto first = pool.Acquire(10);
  std::byte* const data = first->bytes.data();
  EXPECT_EQ(first->bytes.size(), 10u);
  first.reset();
  auto second = pool.Acquire(100);
  EXPECT_EQ(second->bytes.data(), data);
  EXPECT_EQ(second->bytes.size(), 100u);
  EXPECT_EQ(pool.buffers_made(), 1);
}

TEST(BufferPool, KeepsBuffersInUseApart) {
  BufferPool pool(64);
  auto first = pool.Acquire(64);
  auto second = pool.Acquire(64);
  EXPECT_NE(first->bytes.data(), second->bytes.data());
  EXPECT_EQ(pool.buffers_made(), 2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->bytes.data()) % 64, 0u);
}

TEST(BufferPool, BuffersOutliveThePool) {
  std::shared_ptr<ActivationBuffer> kept;
  {
    BufferPool pool(8);
    kept = pool.Acquire(8);
  }
  kept->bytes[7] = std::byte{1};
}

TEST(BufferPool, ABufferMayComeBackFromAnotherThread) {
  BufferPool pool(8);
  for (int i = 0; i < 100; ++i) {
    auto buffer = pool.Acquire(8);
    buffer->bytes[0] = std::byte{static_cast<unsigned char>(i)};
    std::thread([held = std::move(buffer)]() mutable { held.reset(); }).join();
  }
  EXPECT_EQ(pool.buffers_made(), 1);
}

TEST(BufferPool, OfNothing) {
  BufferPool pool(0);
  EXPECT_EQ(pool.Acquire(0)->bytes.size(), 0u);
}

}  // namespace
}  // namespace tutti::worker
