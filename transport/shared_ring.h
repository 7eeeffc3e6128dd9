// One way of a pipe in memory that two processes map: one writes, one reads, neither locks.
//
// Memory: a header of three cache lines (positions written and read, the sleeper's flag), then
// `capacity` bytes of records {u32 head bytes, u32 body bytes, head, body}, each in one piece: one
// that does not fit before the end begins at the start again. Positions only grow.
//
// Each side keeps its own position to itself and checks the other's: when a broken peer writes
// into the memory, nothing outside of it is touched and no loop is endless.
//
// Thread: one for the writer, one for the reader.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace tutti::transport {

struct RingHeader {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  alignas(64) std::atomic<uint32_t> is_asleep;  // the reader: it wants to be woken
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(RingHeader) == 192);

// Bytes of memory for a ring of `capacity`, a multiple of 8.
constexpr int64_t RingBytes(int64_t capacity) {
  return static_cast<int64_t>(sizeof(RingHeader)) + capacity;
}

class RingWriter {
 public:
  // REQUIRES: memory of RingBytes(a multiple of 8), aligned to 64, all zero at the beginning
  explicit RingWriter(std::span<std::byte> memory);

  // A record of `head` and the chunks of `body`; false when there is no room now. DATA_LOSS: the
  // reader's position is none it can have.  REQUIRES: together less than half the capacity
  absl::StatusOr<bool> TryWrite(std::span<const std::byte> head,
                                const std::vector<std::span<const std::byte>>& body);
  // Whether the reader sleeps, and did not know of the last record: then wake it. Says so once.
  bool ShouldWake();

 private:
  RingHeader* const header_;
  std::byte* const data_;
  const uint64_t capacity_;
  uint64_t written_ = 0;
};

class RingReader {
 public:
  // REQUIRES: as of the writer; records of more than these sizes are DATA_LOSS
  RingReader(std::span<std::byte> memory, int64_t head_bytes_max, int64_t body_bytes_max);

  struct Record {
    std::span<const std::byte> head;
    std::span<const std::byte> body;
  };
  // The next record, valid until the next TryRead; none when there is none yet. The bytes are the
  // peer's memory: they can change under a reader's eyes, so copy bytes before they are parsed.
  absl::StatusOr<std::optional<Record>> TryRead();

  // Called before sleeping: from now on the writer wakes us. False: a record has come meanwhile.
  bool FallAsleep();
  void WakeUp();

 private:
  RingHeader* const header_;
  const std::byte* const data_;
  const uint64_t capacity_;
  const uint64_t head_bytes_max_;
  const uint64_t body_bytes_max_;
  uint64_t read_ = 0;
  uint64_t next_ = 0;  // behind the record handed out last
};

}  // namespace tutti::transport
