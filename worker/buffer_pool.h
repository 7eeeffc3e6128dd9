// Activation buffers that are used again and again, so that a warm step allocates nothing large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tutti::worker {

// Bytes with room for the largest step. Goes back to its pool when the last owner lets go.
struct ActivationBuffer {
  std::span<std::byte> bytes;  // the part in use
};

// Thread: Acquire on one thread; buffers may be let go on any thread, also after the pool is gone
// (a link may still be sending from one).
class BufferPool {
 public:
  explicit BufferPool(int64_t capacity_bytes);
  ~BufferPool();

  // A buffer whose first `size` bytes are in use, contents unspecified, aligned to 64 bytes.
  // REQUIRES: 0 <= size <= capacity_bytes
  std::shared_ptr<ActivationBuffer> Acquire(int64_t size);
  // The same, but null rather than more than `limit` buffers in all.
  std::shared_ptr<ActivationBuffer> TryAcquire(int64_t size, int64_t limit);

  int64_t capacity_bytes() const { return capacity_bytes_; }
  // Buffers made so far: how many were ever in use at once.
  int64_t buffers_made() const;

 private:
  // Guarded by a mutex of its own: buffers come back on any thread.
  struct Shared;
  const int64_t capacity_bytes_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tutti::worker
