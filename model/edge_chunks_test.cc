#include "model/edge_chunks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>

namespace tutti::model {
namespace {

struct EdgeChunksTest : testing::Test {
  // The bytes that With gives for a chunk whose bytes say which it is.
  std::string Get(int32_t file, int64_t chunk) {
    std::string text;
    const absl::Status status = chunks.With(
        file, chunk,
        [&](std::vector<std::byte>* bytes) {
          ++reads;
          bytes->assign(1 + static_cast<size_t>(chunk), static_cast<std::byte>('a' + file));
          return absl::OkStatus();
        },
        [&](std::span<const std::byte> bytes) {
          text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        });
    EXPECT_TRUE(status.ok()) << status;
    return text;
  }

  EdgeChunks chunks{2};
  std::atomic<int> reads{0};
};

TEST_F(EdgeChunksTest, TheLastOnesAreReadOnce) {
  EXPECT_EQ(Get(0, 3), "aaaa");
  EXPECT_EQ(Get(1, 3), "bbbb") << "of another file";
  EXPECT_EQ(Get(0, 3), "aaaa");
  EXPECT_EQ(reads, 2);
  EXPECT_EQ(Get(0, 0), "a") << "in the place of (1, 3), which was used longest ago";
  EXPECT_EQ(Get(0, 3), "aaaa");
  EXPECT_EQ(reads, 3);
  EXPECT_EQ(Get(1, 3), "bbbb");
  EXPECT_EQ(reads, 4);
}

TEST_F(EdgeChunksTest, WhatCouldNotBeReadIsReadAgain) {
  const absl::Status status = chunks.With(
      0, 1, [](std::vector<std::byte>*) { return absl::UnavailableError("the disk"); },
      [](std::span<const std::byte>) { FAIL() << "there are no bytes"; });
  EXPECT_EQ(status, absl::UnavailableError("the disk"));
  EXPECT_EQ(Get(0, 1), "aa");
  EXPECT_EQ(reads, 1);
}

// As threads do that read a checkpoint: each wants all chunks, in order. Returns how often one was
// read; the bytes are right each time.
int ReadByAll(int threads, int64_t chunks, EdgeChunks* shared) {
  std::atomic<int> read = 0, right = 0;
  std::latch begin(threads);
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      begin.arrive_and_wait();
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const absl::Status status = shared->With(
            0, chunk,
            [&](std::vector<std::byte>* bytes) {
              ++read;
              bytes->assign(1000, static_cast<std::byte>(chunk));
              return absl::OkStatus();
            },
            [&](std::span<const std::byte> bytes) {
              if (bytes.size() == 1000 && bytes[999] == static_cast<std::byte>(chunk)) ++right;
            });
        EXPECT_TRUE(status.ok());
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(right, threads * chunks);
  return read;
}

TEST_F(EdgeChunksTest, OneReadsAndOthersWait) {
  EdgeChunks shared(200);
  EXPECT_EQ(ReadByAll(4, 200, &shared), 200);
}

// Chunks make room for others while threads read and use them.
TEST_F(EdgeChunksTest, ManyThreadsWithRoomForFew) {
  EdgeChunks shared(2);
  EXPECT_GE(ReadByAll(4, 2000, &shared), 2000);
}

// More are in use than are kept: each has its own memory until it is given back.
TEST_F(EdgeChunksTest, WhatIsInUseStays) {
  const auto fill = [](int64_t chunk) {
    return [chunk](std::vector<std::byte>* bytes) {
      bytes->assign(8, static_cast<std::byte>(chunk));
      return absl::OkStatus();
    };
  };
  int seen = 0;
  EdgeChunks one(1);
  EXPECT_TRUE(one.With(0, 1, fill(1),
                       [&](std::span<const std::byte> outer) {
                         EXPECT_TRUE(one.With(0, 2, fill(2),
                                              [&](std::span<const std::byte> inner) {
                                                EXPECT_EQ(outer[0], static_cast<std::byte>(1));
                                                EXPECT_EQ(inner[0], static_cast<std::byte>(2));
                                                ++seen;
                                              })
                                         .ok());
                       })
                  .ok());
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace tutti::model
