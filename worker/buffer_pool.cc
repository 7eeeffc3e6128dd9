#include "worker/buffer_pool.h"

#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/check.h"
#include "base/mutex.h"

namespace tutti::worker {
namespace {

constexpr size_t kAlignment = 64;

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Memory = std::unique_ptr<std::byte, Free>;

struct PooledBuffer {
  ActivationBuffer view;
  Memory memory;
};

}  // namespace

struct BufferPool::Shared {
  Mutex mutex;
  std::vector<std::unique_ptr<PooledBuffer>> idle ABSL_GUARDED_BY(mutex);
  int64_t made ABSL_GUARDED_BY(mutex) = 0;
};

BufferPool::BufferPool(int64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes), shared_(std::make_shared<Shared>()) {
  CHECK(capacity_bytes >= 0);
}

BufferPool::~BufferPool() = default;

std::shared_ptr<ActivationBuffer> BufferPool::Acquire(int64_t size) {
  return TryAcquire(size, std::numeric_limits<int64_t>::max());
}

std::shared_ptr<ActivationBuffer> BufferPool::TryAcquire(int64_t size, int64_t limit) {
  CHECK(size >= 0 && size <= capacity_bytes_) << size << " of " << capacity_bytes_ << " bytes";
  std::unique_ptr<PooledBuffer> buffer;
  {
    const MutexLock lock(&shared_->mutex);
    if (!shared_->idle.empty()) {
      buffer = std::move(shared_->idle.back());
      shared_->idle.pop_back();
    } else if (shared_->made >= limit) {
      return nullptr;
    } else {
      ++shared_->made;
    }
  }
  if (buffer == nullptr) {
    buffer = std::make_unique<PooledBuffer>();
    const size_t rounded =
        (static_cast<size_t>(capacity_bytes_) + kAlignment) / kAlignment * kAlignment;
    buffer->memory.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    CHECK(buffer->memory != nullptr) << "no memory for an activation of " << rounded << " bytes";
  }
  buffer->view.bytes = {buffer->memory.get(), static_cast<size_t>(size)};
  ActivationBuffer* const view = &buffer->view;
  // The owner's deleter gives the buffer back; the mutex orders its last reader before the next
  // writer.
  std::shared_ptr<PooledBuffer> owner(buffer.release(), [shared = shared_](PooledBuffer* returned) {
    const MutexLock lock(&shared->mutex);
    shared->idle.emplace_back(returned);
  });
  return {std::move(owner), view};
}

int64_t BufferPool::buffers_made() const {
  const MutexLock lock(&shared_->mutex);
  return shared_->made;
}

}  // namespace tutti::worker
