// Device memory that is kept: work space that only grows until it is given back, and small arrays
// that are uploaded only when they change. After the largest step has been seen nothing is
// allocated any more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/limits.h"
#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {

// Thread: the backend's.
class WorkSpace {
 public:
  explicit WorkSpace(Runtime* runtime) : runtime_(runtime) {}
  ~WorkSpace() { GiveBack(); }
  WorkSpace(const WorkSpace&) = delete;
  WorkSpace& operator=(const WorkSpace&) = delete;

  // Makes AtLeast(bytes) take nothing.  RESOURCE_EXHAUSTED when memory is short.
  absl::Status Reserve(int64_t bytes) {
    if (bytes <= bytes_) return absl::OkStatus();
    GiveBack();
    TUTTI_ASSIGN_OR_RETURN(data_, runtime_->Allocate(bytes));
    bytes_ = bytes;
    return absl::OkStatus();
  }
  void GiveBack() {
    if (data_ != nullptr) runtime_->Free(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  int64_t bytes() const { return bytes_; }

  // At least `bytes`, contents undefined. Memory of earlier calls is no longer valid.
  void* AtLeast(int64_t bytes) {
    if (bytes <= bytes_) return data_;
    // Half as much again, so that batches that grow row by row do not allocate at each.
    const absl::Status taken = Reserve(bytes + bytes / 2);
    CHECK(taken.ok()) << "work space of a step: " << taken;
    return data_;
  }
  template <class T>
  T* Of(int64_t count) {
    return static_cast<T*>(AtLeast(count * static_cast<int64_t>(sizeof(T))));
  }

 private:
  Runtime* const runtime_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

// One kind of array that operators get from the host again and again: every layer of a step asks
// with the same contents. Arrays of the last step are replaced first, always in the same order, so
// that the arrays of equal steps stand at equal addresses and their launches are equal too.
//
// Thread: the backend's.
class Uploads {
 public:
  explicit Uploads(LaunchQueue* queue) : queue_(queue) { entries_.reserve(kRememberedUploads); }
  ~Uploads() { GiveBack(); }
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // Makes Get of arrays of up to `bytes` take nothing.  RESOURCE_EXHAUSTED when memory is short.
  absl::Status Reserve(int64_t bytes) {
    while (static_cast<int>(entries_.size()) < kRememberedUploads) entries_.emplace_back();
    for (Entry& entry : entries_) {
      if (entry.device != nullptr && entry.capacity >= bytes) continue;
      TUTTI_RETURN_IF_ERROR(Grow(&entry, bytes));
    }
    return absl::OkStatus();
  }
  void GiveBack() {
    for (const Entry& entry : entries_) {
      if (entry.device != nullptr) queue_->Free(entry.device);
    }
    entries_.clear();
  }
  int64_t bytes() const {
    int64_t total = 0;
    for (const Entry& entry : entries_) total += entry.capacity;
    return total;
  }

  // The array on the device, nullptr for an empty one; valid until the next call but
  // kRememberedUploads - 1.
  template <class T>
  const T* Get(std::span<const T> array) {
    return static_cast<const T*>(Find(array.data(), static_cast<int64_t>(array.size_bytes())));
  }

 private:
  struct Entry {
    std::vector<char> content;
    void* device = nullptr;
    int64_t capacity = 0;
    int64_t used = 0;   // when, last
    int64_t step = -1;  // in which step; -1: none
  };

  const void* Find(const void* data, int64_t bytes) {
    if (bytes == 0) return nullptr;
    for (Entry& entry : entries_) {
      if (entry.device != nullptr && static_cast<int64_t>(entry.content.size()) == bytes &&
          std::memcmp(entry.content.data(), data, bytes) == 0) {
        return Use(&entry);
      }
    }
    Entry& entry = Replaceable();
    if (entry.capacity < bytes || entry.device == nullptr) {
      const absl::Status taken = Grow(&entry, bytes + bytes / 2);
      CHECK(taken.ok()) << "a step's small arrays: " << taken;
    }
    const char* const from = static_cast<const char*>(data);
    entry.content.assign(from, from + bytes);
    // Recorded launches may read the arrays that this step has used.
    if (entry.step == queue_->steps()) queue_->Flush();
    queue_->UploadAhead(entry.device, data, bytes);
    return Use(&entry);
  }

  const void* Use(Entry* entry) {
    entry->used = ++now_;
    entry->step = queue_->steps();
    return entry->device;
  }

  // The first that this step has not used, or the one used longest ago.
  Entry& Replaceable() {
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      if (entry.step != queue_->steps()) return entry;
      if (oldest == nullptr || entry.used < oldest->used) oldest = &entry;
    }
    if (static_cast<int>(entries_.size()) < kRememberedUploads) return entries_.emplace_back();
    return *oldest;
  }

  absl::Status Grow(Entry* entry, int64_t bytes) {
    if (entry->device != nullptr) queue_->Free(entry->device);
    // Its earlier contents are gone.
    entry->device = nullptr;
    entry->content.clear();
    entry->capacity = 0;
    const int64_t capacity = std::max(bytes, kGpuSmallestUpload);
    TUTTI_ASSIGN_OR_RETURN(entry->device, queue_->AllocateConstant(capacity));
    entry->capacity = capacity;
    return absl::OkStatus();
  }

  LaunchQueue* const queue_;
  std::vector<Entry> entries_;
  int64_t now_ = 0;
};

}  // namespace tutti::kernels::cuda
