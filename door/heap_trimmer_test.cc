#include "door/heap_trimmer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "door/limits.h"

namespace tutti::door {
namespace {

// A heap whose figures a test sets, and which a trim leaves with little that is free.
class FakeHeap {
 public:
  HeapTrimmer Trimmer(Duration forgets = kHeapForgets) {
    return HeapTrimmer(
        [this] {
          const int64_t in_use = used;
          const HeapState state = {.resident = in_use + unused, .used = in_use};
          ++looks;
          return state;
        },
        [this] {
          unused = after_trim.load();
          ++trims;
        },
        std::chrono::milliseconds(1), forgets);
  }
  // Returns after the trimmer has seen what is set now.
  void WaitForLooks() const {
    const int before = looks;
    while (looks < before + 3) std::this_thread::yield();
  }

  std::atomic<int64_t> used{100 << 20};
  std::atomic<int64_t> unused{3 << 20};
  std::atomic<int64_t> after_trim{4 << 20};
  std::atomic<int> looks{0};
  std::atomic<int> trims{0};
};

TEST(HeapTrimmerTest, TrimsWhereMuchIsFree) {
  FakeHeap heap;
  const HeapTrimmer trimmer = heap.Trimmer();
  heap.WaitForLooks();
  heap.unused = (2 << 20) + kTrimAfterBytes;
  heap.WaitForLooks();
  EXPECT_EQ(heap.trims, 0);
  heap.unused = (3 << 20) + kTrimAfterBytes;
  heap.WaitForLooks();
  EXPECT_EQ(heap.trims, 1) << "and not for ever";
  EXPECT_EQ(heap.unused, heap.after_trim);
}

// However late its thread begins.
TEST(HeapTrimmerTest, SeesWhatIsFreedAsSoonAsItStands) {
  FakeHeap heap;
  const HeapTrimmer trimmer = heap.Trimmer();
  heap.unused = 400 << 20;
  heap.WaitForLooks();
  EXPECT_EQ(heap.trims, 1);
}

// What is in use is not the trimmer's, and when it is freed it is, however it came to be.
TEST(HeapTrimmerTest, SeesThatWhatWasUsedIsFree) {
  FakeHeap heap;
  const HeapTrimmer trimmer = heap.Trimmer();
  heap.WaitForLooks();
  heap.used = 500 << 20;
  heap.WaitForLooks();
  EXPECT_EQ(heap.trims, 0);
  heap.unused = 400 << 20;
  heap.used = 103 << 20;
  heap.WaitForLooks();
  EXPECT_EQ(heap.trims, 1);
}

// A trim that leaves much, because pieces in use lie between what is free, is not tried again and
// again.
TEST(HeapTrimmerTest, AsksNotForMoreThanATrimCanGive) {
  FakeHeap heap;
  heap.after_trim = 60 << 20;
  const HeapTrimmer trimmer = heap.Trimmer();
  heap.WaitForLooks();
  heap.unused = 90 << 20;
  heap.WaitForLooks();
  heap.WaitForLooks();
  EXPECT_EQ(heap.trims, 1);
  heap.unused = (60 << 20) + kTrimAfterBytes;
  heap.WaitForLooks();
  EXPECT_EQ(heap.trims, 2);
}

// But now and then it is: what was in use between may be free.
TEST(HeapTrimmerTest, TriesAgainWhatATrimHadToLeave) {
  FakeHeap heap;
  heap.after_trim = 60 << 20;
  const HeapTrimmer trimmer = heap.Trimmer(/*forgets=*/std::chrono::milliseconds(20));
  heap.unused = 90 << 20;
  while (heap.trims < 1) std::this_thread::yield();
  heap.after_trim = 4 << 20;
  while (heap.trims < 2) std::this_thread::yield();
  EXPECT_EQ(heap.unused, 4 << 20);
}

TEST(HeapTrimmerTest, EndsWhileItSleeps) {
  std::atomic<int> looks{0};
  {
    const HeapTrimmer trimmer(
        [&] {
          ++looks;
          return HeapState{};
        },
        [] {}, std::chrono::hours(1));
  }
  EXPECT_LE(looks, 1);
}

// The real heap: small pieces that a thread frees stay resident until they are trimmed.
TEST(HeapTrimmerTest, MemoryOfThreadsThatLiveGoesBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator tells nothing";
#endif
  constexpr int kPieces = 20000;
  constexpr size_t kPieceBytes = 4000;
  std::atomic<int> phase{0};
  std::thread thread([&] {
    std::vector<char*> pieces(kPieces);
    for (char*& piece : pieces) {
      piece = static_cast<char*>(std::malloc(kPieceBytes));  // NOLINT(cppcoreguidelines-no-malloc)
      std::memset(piece, 1, kPieceBytes);
    }
    phase = 1;
    while (phase == 1) std::this_thread::yield();
    // The last one stays, and keeps the arena from shrinking by itself.
    for (int i = 0; i + 1 < kPieces; ++i) std::free(pieces[i]);  // NOLINT(*-no-malloc)
    phase = 3;
    while (phase == 3) std::this_thread::yield();
    std::free(pieces.back());  // NOLINT(*-no-malloc)
  });
  while (phase < 1) std::this_thread::yield();
  const HeapState held = LookAtHeap();
  EXPECT_GE(held.used, int64_t{kPieces * kPieceBytes});
  EXPECT_GE(held.resident, int64_t{kPieces * kPieceBytes});
  const HeapTrimmer trimmer(LookAtHeap, TrimHeap, std::chrono::milliseconds(1));
  phase = 2;
  while (phase < 3) std::this_thread::yield();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const int64_t wanted = held.resident - int64_t{kPieces * kPieceBytes} * 3 / 4;
  while (LookAtHeap().resident > wanted && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(LookAtHeap().resident, wanted);
  phase = 4;
  thread.join();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// A large buffer that was freed, and then small ones by another thread, whose arena is no trim's.
TEST(BoundHeapTest, WhatThreadsFreeGoesBack) {
  constexpr size_t kLarge = 30 << 20, kSmall = 1000, kAll = 48 << 20;
  BoundHeap();
  const auto fill = [](size_t bytes) {
    void* const block = std::malloc(bytes);
    std::memset(block, 1, bytes);
    return block;
  };
  std::free(fill(kLarge));
  const int64_t before = LookAtHeap().resident;
  std::thread([&] {
    std::vector<void*> blocks;
    for (size_t i = 0; i < kAll / kSmall; ++i) blocks.push_back(fill(kSmall));
    EXPECT_GT(LookAtHeap().resident, before + static_cast<int64_t>(kAll) / 2);
    for (void* block : blocks) std::free(block);
  }).join();
  EXPECT_LT(LookAtHeap().resident, before + (8 << 20));
}
#endif

}  // namespace
}  // namespace tutti::door
