#include "transport/shared_ring.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tutti::transport {
namespace {

struct RecordSizes {
  uint32_t head;
  uint32_t body;
};
// A mark in place of a record: the next one is at the start.
constexpr uint32_t kSkip = UINT32_MAX;

constexpr uint64_t RecordBytes(uint64_t head, uint64_t body) {
  return (sizeof(RecordSizes) + head + body + 7) / 8 * 8;
}

RingHeader* HeaderOf(std::span<std::byte> memory) {
  CHECK(memory.size() > sizeof(RingHeader) && memory.size() % 8 == 0);
  CHECK(reinterpret_cast<uintptr_t>(memory.data()) % alignof(RingHeader) == 0);
  return reinterpret_cast<RingHeader*>(memory.data());
}

}  // namespace

RingWriter::RingWriter(std::span<std::byte> memory)
    : header_(HeaderOf(memory)),
      data_(memory.data() + sizeof(RingHeader)),
      capacity_(memory.size() - sizeof(RingHeader)) {}

absl::StatusOr<bool> RingWriter::TryWrite(std::span<const std::byte> head,
                                          const std::vector<std::span<const std::byte>>& body) {
  uint64_t body_bytes = 0;
  for (const auto& chunk : body) body_bytes += chunk.size();
  const uint64_t bytes = RecordBytes(head.size(), body_bytes);
  CHECK(bytes < capacity_ / 2) << bytes;

  const uint64_t read = header_->read.load(std::memory_order_acquire);
  if (read > written_ || written_ - read > capacity_) {
    return absl::DataLossError(
        absl::StrCat("shared memory: read up to ", read, " of ", written_, " bytes written"));
  }
  const uint64_t at = written_ % capacity_;
  const uint64_t skipped = capacity_ - at < bytes ? capacity_ - at : 0;
  if (capacity_ - (written_ - read) < skipped + bytes) return false;
  if (skipped > 0) {
    const RecordSizes skip{kSkip, 0};
    std::memcpy(data_ + at, &skip, sizeof(skip));
    written_ += skipped;
  }
  std::byte* to = data_ + written_ % capacity_;
  const RecordSizes sizes{static_cast<uint32_t>(head.size()), static_cast<uint32_t>(body_bytes)};
  std::memcpy(to, &sizes, sizeof(sizes));
  to += sizeof(sizes);
  const auto append = [&to](std::span<const std::byte> chunk) {
    if (chunk.empty()) return;
    std::memcpy(to, chunk.data(), chunk.size());
    to += chunk.size();
  };
  append(head);
  for (const auto& chunk : body) append(chunk);
  written_ += bytes;
  header_->written.store(written_, std::memory_order_release);
  return true;
}

// Either the reader sees the record before it sleeps, or we see here that it sleeps (Dekker).
bool RingWriter::ShouldWake() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return header_->is_asleep.load(std::memory_order_relaxed) != 0 &&
         header_->is_asleep.exchange(0, std::memory_order_relaxed) != 0;
}

RingReader::RingReader(std::span<std::byte> memory, int64_t head_bytes_max, int64_t body_bytes_max)
    : header_(HeaderOf(memory)),
      data_(memory.data() + sizeof(RingHeader)),
      capacity_(memory.size() - sizeof(RingHeader)),
      head_bytes_max_(static_cast<uint64_t>(head_bytes_max)),
      body_bytes_max_(static_cast<uint64_t>(body_bytes_max)) {}

absl::StatusOr<std::optional<RingReader::Record>> RingReader::TryRead() {
  if (next_ != read_) {
    read_ = next_;
    header_->read.store(read_, std::memory_order_release);
  }
  const uint64_t written = header_->written.load(std::memory_order_acquire);
  while (written != read_) {
    const uint64_t ready = written - read_;  // wraps, and is then too much, when written < read_
    const uint64_t at = read_ % capacity_;
    if (ready > capacity_ || ready < sizeof(RecordSizes)) {
      return absl::DataLossError(absl::StrCat("shared memory: ", written,
                                              " bytes written, of which ", read_, " are read"));
    }
    RecordSizes sizes;
    std::memcpy(&sizes, data_ + at, sizeof(sizes));
    if (sizes.head == kSkip) {
      // A record never begins with a skip at the start, so this happens at most once.
      if (at == 0 || ready < capacity_ - at) {
        return absl::DataLossError("shared memory: a record is cut off");
      }
      read_ = next_ = read_ + (capacity_ - at);
      continue;
    }
    const uint64_t bytes = RecordBytes(sizes.head, sizes.body);
    if (sizes.head > head_bytes_max_ || sizes.body > body_bytes_max_ || bytes > ready ||
        bytes > capacity_ - at) {
      return absl::DataLossError(absl::StrCat("shared memory: a record of ", sizes.head, " and ",
                                              sizes.body, " bytes, of which ", ready,
                                              " bytes are written"));
    }
    next_ = read_ + bytes;
    const std::byte* const head = data_ + at + sizeof(sizes);
    return Record{{head, sizes.head}, {head + sizes.head, sizes.body}};
  }
  return std::nullopt;
}

bool RingReader::FallAsleep() {
  header_->is_asleep.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (header_->written.load(std::memory_order_acquire) == next_) return true;
  WakeUp();
  return false;
}

void RingReader::WakeUp() { header_->is_asleep.store(0, std::memory_order_relaxed); }

}  // namespace tutti::transport
