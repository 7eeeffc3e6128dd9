#include "transport/shared_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace tutti::transport {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class SharedRingTest : public ::testing::Test {
 protected:
  static constexpr int64_t kCapacity = 256;

  struct alignas(64) Memory {
    std::byte bytes[RingBytes(kCapacity)] = {};
  };

  std::span<std::byte> memory() { return memory_.bytes; }
  RingHeader* header() { return reinterpret_cast<RingHeader*>(memory_.bytes); }
  // The header of the record at byte `at` of the ring.
  void Overwrite(int64_t at, uint32_t head, uint32_t body) {
    const uint32_t sizes[] = {head, body};
    std::memcpy(memory_.bytes + sizeof(RingHeader) + at, sizes, sizeof(sizes));
  }

  Memory memory_;
  RingWriter writer_{memory()};
  RingReader reader_{memory(), 32, 96};
};

TEST_F(SharedRingTest, WhatIsWrittenIsRead) {
  EXPECT_FALSE(reader_.TryRead()->has_value());
  ASSERT_TRUE(*writer_.TryWrite(Bytes("head"), {Bytes("some"), {}, Bytes("body")}));
  ASSERT_TRUE(*writer_.TryWrite(Bytes(""), {}));
  const auto first = *reader_.TryRead();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(Text(first->head), "head");
  EXPECT_EQ(Text(first->body), "somebody");
  const auto second = *reader_.TryRead();
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->head.empty() && second->body.empty());
  EXPECT_FALSE(reader_.TryRead()->has_value());
}

// A record is free again once the next one is asked for, not before.
TEST_F(SharedRingTest, RefusesWhatDoesNotFit) {
  const std::string body(80, 'x');
  ASSERT_TRUE(*writer_.TryWrite({}, {Bytes(body)}));
  ASSERT_TRUE(*writer_.TryWrite({}, {Bytes(body)}));
  EXPECT_FALSE(*writer_.TryWrite({}, {Bytes(body)}));
  ASSERT_TRUE(reader_.TryRead()->has_value());
  EXPECT_FALSE(*writer_.TryWrite({}, {Bytes(body)}));
  ASSERT_TRUE(reader_.TryRead()->has_value());
  EXPECT_TRUE(*writer_.TryWrite({}, {Bytes(body)}));
}

TEST_F(SharedRingTest, CarriesAnySizesInOrderBetweenThreads) {
  constexpr int kRecords = 20'000;
  const auto record = [](int i) {
    std::minstd_rand random(static_cast<unsigned>(i) + 1);
    return std::pair(absl::StrCat("#", i), std::string(random() % 80, static_cast<char>(i)));
  };
  std::thread writing([&] {
    for (int i = 0; i < kRecords; ++i) {
      const auto [head, body] = record(i);
      while (!*writer_.TryWrite(Bytes(head), {Bytes(body)})) std::this_thread::yield();
    }
  });
  for (int i = 0; i < kRecords; ++i) {
    auto got = *reader_.TryRead();
    for (; !got.has_value(); got = *reader_.TryRead()) std::this_thread::yield();
    const auto [head, body] = record(i);
    ASSERT_EQ(Text(got->head), head);
    ASSERT_EQ(Text(got->body), body);
  }
  writing.join();
}

// Every sleep ends: either a record was there, or its writer sees that it has to wake.
TEST_F(SharedRingTest, NoSleeperIsForgotten) {
  constexpr int kRecords = 20'000;
  std::atomic<int> calls{0};
  std::thread writing([&] {
    for (int i = 0; i < kRecords; ++i) {
      while (!*writer_.TryWrite({}, {Bytes("x")})) std::this_thread::yield();
      if (writer_.ShouldWake()) ++calls;
    }
  });
  int sleeps = 0;
  for (int i = 0; i < kRecords;) {
    if (reader_.TryRead()->has_value()) {
      ++i;
    } else if (reader_.FallAsleep()) {
      ++sleeps;
      while (calls.load() < sleeps) std::this_thread::yield();
    } else {
      // The writer may have seen the flag before it was taken back.
      sleeps = calls.load() > sleeps ? calls.load() : sleeps;
    }
  }
  writing.join();
  EXPECT_FALSE(writer_.ShouldWake());
}

TEST_F(SharedRingTest, AWakingCallIsMadeOnce) {
  EXPECT_FALSE(writer_.ShouldWake());
  EXPECT_TRUE(reader_.FallAsleep());
  ASSERT_TRUE(*writer_.TryWrite({}, {}));
  EXPECT_TRUE(writer_.ShouldWake());
  EXPECT_FALSE(writer_.ShouldWake());
  EXPECT_FALSE(reader_.FallAsleep());  // there is something to read
  EXPECT_FALSE(writer_.ShouldWake());
}

// The memory belongs to the peer as much as to us.
TEST_F(SharedRingTest, PositionsThatCannotBeAreRefused) {
  for (const uint64_t written :
       {uint64_t{4}, uint64_t{kCapacity + 8}, UINT64_MAX, UINT64_MAX - 7}) {
    header()->written = written;
    EXPECT_EQ(reader_.TryRead().status().code(), absl::StatusCode::kDataLoss) << written;
  }
  for (const uint64_t read : {uint64_t{8}, UINT64_MAX}) {
    header()->read = read;
    EXPECT_EQ(writer_.TryWrite({}, {}).status().code(), absl::StatusCode::kDataLoss) << read;
  }
}

TEST_F(SharedRingTest, SizesThatCannotBeAreRefused) {
  const std::string body(16, 'x');
  ASSERT_TRUE(*writer_.TryWrite({}, {Bytes(body)}));
  const std::pair<uint32_t, uint32_t> wrong[] = {
      {33, 0}, {0, 97}, {0, 17}, {32, 96}, {0xFFFFFFFE, 2}, {1, 0xFFFFFFFF}, {0xFFFFFFFF, 0}};
  for (const auto& [head, size] : wrong) {
    Overwrite(0, head, size);
    EXPECT_EQ(reader_.TryRead().status().code(), absl::StatusCode::kDataLoss)
        << head << " " << size;
  }
  Overwrite(0, 0, 16);
  EXPECT_TRUE(reader_.TryRead()->has_value());
}

// Memory with any contents: no crash, no reading outside, and an end.
TEST_F(SharedRingTest, AnyMemoryIsHarmless) {
  std::minstd_rand random(1);
  for (int round = 0; round < 20'000; ++round) {
    Memory memory;
    for (auto& byte : memory.bytes) byte = static_cast<std::byte>(random() % 3 == 0 ? random() : 0);
    auto* const ring = reinterpret_cast<RingHeader*>(memory.bytes);
    ring->written = random() % (kCapacity + 9);
    RingReader reader(memory.bytes, 32, 96);
    int64_t records = 0;
    while (true) {
      const auto got = reader.TryRead();
      if (!got.ok() || !got->has_value()) break;
      ASSERT_GE((*got)->head.data(), memory.bytes + sizeof(RingHeader));
      ASSERT_LE((*got)->body.data() + (*got)->body.size(), memory.bytes + sizeof(memory.bytes));
      ASSERT_LE(++records, kCapacity / 8);
    }
  }
}

}  // namespace
}  // namespace tutti::transport
