// The door: the bounds of what the public port holds for its clients, in bytes and in time, and the
// one budget that all calls draw on.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/status.h"
#include "door/byte_budget.h"
#include "door/limits.h"
#include "door/request_log.h"
#include "transport/credit_book.h"

namespace tutti::door {

// Options as in limits.h; tests choose others.
struct DoorOptions {
  int64_t bytes = kDoorBytesMax;
  Duration read_grace = kReadGrace;
  Duration read_max = kReadMax;
  int64_t unread_bytes = kUnreadOutputBytesMax;
  Duration unread_linger = kUnreadLinger;
};

// Thread: any.
struct Door {
  explicit Door(const DoorOptions& chosen) : options(chosen), budget(chosen.bytes) {}

  const DoorOptions options;
  ByteBudget budget;
  transport::CreditBook book;  // of the public port's connections
  RefusalLines refusal_lines;
  std::atomic<uint64_t> invalid{0};  // requests refused here for what they are
  std::atomic<int64_t> calls{0};     // that have begun and of which gRPC has something left to do
};

// RESOURCE_EXHAUSTED with a time to come back.
absl::Status Overloaded(std::string_view what);
// RESOURCE_EXHAUSTED for a request that ran out of memory.
absl::Status OutOfMemory();
// INTERNAL for one that met a fault of ours; the log has it too.
absl::Status Unforeseen(const std::exception& fault);

// What runs out of memory inside of such a scope gets std::bad_alloc. Where WaitForMemory was
// called, what is in none waits for those that are, who end and give theirs back: a thread without
// a request has nobody to tell.
class MemoryScope {
 public:
  MemoryScope() { ++scopes_; }
  ~MemoryScope() { --scopes_; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  static bool IsInside() { return scopes_ > 0; }

 private:
  static inline thread_local int scopes_ = 0;  // of this thread
};

// From now on, in all threads. One that has waited for kMemoryWaitMax gets std::bad_alloc too.
void WaitForMemory();

// The boundary for exceptions. Work that depends on bytes from outside is done inside, so that
// running out of memory ends that request and not the process, and so does what a library, or a
// slip of ours, throws at bytes that nobody has thought of: INTERNAL, with its words.
// `work` returns a Status.
template <typename Work>
absl::Status WithinMemory(Work work) {
  const MemoryScope scope;
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::length_error&) {  // a container asked for more than there can be
    return OutOfMemory();
  } catch (const std::exception& fault) {
    return Unforeseen(fault);
  }
}

}  // namespace tutti::door
