#include "worker/read_ahead.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread.h"
#include "kernels/host_buffer.h"
#include "model/limits.h"
#include "worker/limits.h"

namespace tutti::worker {

int64_t ReadItem::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts) total += part.slice.bytes();
  return total;
}

ReadAhead::ReadAhead(const model::Checkpoint* checkpoint, std::vector<ReadItem> items, int threads,
                     int64_t bytes_ahead)
    : checkpoint_(checkpoint),
      items_(std::move(items)),
      bytes_ahead_(bytes_ahead),
      slots_(items_.size()) {
  const auto edges =
      std::make_shared<model::EdgeChunks>(model::kEdgeChunksKept * static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    readers_.push_back(std::make_unique<model::ChunkReader>(checkpoint_, edges));
    auto thread = TryStartThread("reading the checkpoint",
                                 [this, reader = readers_.back().get()] { Run(reader); });
    // Fewer are slower; without any nothing comes.
    if (!thread.ok()) {
      if (threads_.empty()) no_thread_ = thread.status();
      break;
    }
    threads_.push_back(*std::move(thread));
  }
}

ReadAhead::~ReadAhead() { Join(); }

void ReadAhead::Join() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ReadAhead::Run(model::ChunkReader* reader) {
  for (size_t item = Claim(); item < items_.size(); item = Claim()) {
    absl::StatusOr<std::unique_ptr<kernels::DeviceBuffer>> buffer =
        AcquireBuffer(items_[item].bytes());
    absl::Status status = buffer.status();
    if (status.ok()) {
      status = ReadInto(reader, items_[item], static_cast<std::byte*>((*buffer)->data()));
    }
    MutexLock lock(&mutex_);
    stop_ |= !status.ok();
    if (buffer.ok()) slots_[item].buffer = *std::move(buffer);
    slots_[item].status = std::move(status);
    slots_[item].done = true;
    changed_.NotifyAll();
  }
}

absl::Status ReadAhead::ReadInto(model::ChunkReader* reader, const ReadItem& item, std::byte* out) {
  for (const ReadItem::Part& part : item.parts) {
    TUTTI_RETURN_IF_ERROR(reader->Read(*part.tensor, part.slice, out, &bytes_read_));
    out += part.slice.bytes();
  }
  return absl::OkStatus();
}

size_t ReadAhead::Claim() {
  MutexLock lock(&mutex_);
  for (;;) {
    if (stop_ || next_ == items_.size()) return items_.size();
    const int64_t bytes = items_[next_].bytes();
    if (held_ == 0 || held_ + bytes <= bytes_ahead_) {
      held_ += bytes;
      return next_++;
    }
    changed_.Wait(&mutex_);
  }
}

// Memory that was written before costs less than pages that are new; but not much more of it than
// the item needs, so that one large item does not hold on to its memory for the rest.
absl::StatusOr<std::unique_ptr<kernels::DeviceBuffer>> ReadAhead::AcquireBuffer(int64_t bytes) {
  if (bytes >= kReusedBufferBytesMin) {
    MutexLock lock(&mutex_);
    const int64_t most = std::max(2 * bytes, bytes_ahead_ / kReadThreadsMax);
    std::erase_if(spare_, [&](const auto& buffer) { return buffer->bytes() > most; });
    const auto smaller = [&](const auto& a, const auto& b) {
      return std::pair(a->bytes() < bytes, a->bytes()) < std::pair(b->bytes() < bytes, b->bytes());
    };
    // The smallest that is large enough; if none is, one makes room for the new one.
    const auto best = std::min_element(spare_.begin(), spare_.end(), smaller);
    if (best != spare_.end()) {
      std::unique_ptr<kernels::DeviceBuffer> found = std::move(*best);
      spare_.erase(best);
      if (found->bytes() >= bytes) return found;
    }
  }
  auto buffer = kernels::AllocateHost(bytes);
  if (!buffer.ok()) return Annotate(buffer.status(), "memory to read the checkpoint into");
  return buffer;
}

void ReadAhead::GiveBack(size_t item) {
  std::unique_ptr<kernels::DeviceBuffer> buffer = std::move(slots_[item].buffer);
  if (buffer->bytes() >= kReusedBufferBytesMin) spare_.push_back(std::move(buffer));
  held_ -= items_[item].bytes();
  changed_.NotifyAll();
}

absl::StatusOr<std::span<const std::byte>> ReadAhead::Next(const std::function<void()>& moving) {
  CHECK(taken_ < items_.size());
  TUTTI_RETURN_IF_ERROR(no_thread_);
  int64_t told = bytes_read_.load();
  auto tell_at = std::chrono::steady_clock::now() + kReadTellInterval;
  MutexLock lock(&mutex_);
  if (taken_ > 0) GiveBack(taken_ - 1);
  const size_t item = taken_++;
  while (!slots_[item].done) {
    // Another thread's error may have kept this item from being read.
    if (stop_ && next_ <= item) break;
    if (changed_.WaitUntil(&mutex_, tell_at)) continue;
    tell_at += kReadTellInterval;
    const int64_t read = bytes_read_.load();
    if (read == std::exchange(told, read)) continue;
    mutex_.Unlock();
    moving();
    mutex_.Lock();
  }
  for (size_t earlier = item; earlier < slots_.size(); ++earlier) {
    if (slots_[earlier].done) TUTTI_RETURN_IF_ERROR(slots_[earlier].status);
    if (earlier == item && slots_[item].done) break;
  }
  CHECK(slots_[item].done);
  const kernels::DeviceBuffer& buffer = *slots_[item].buffer;
  return std::span<const std::byte>(static_cast<const std::byte*>(buffer.data()),
                                    static_cast<size_t>(items_[item].bytes()));
}

absl::StatusOr<std::vector<model::ChunkRun>> ReadAhead::Finish() {
  CHECK(taken_ == items_.size());
  Join();
  for (size_t i = 1; i < readers_.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(readers_[0]->Merge(*readers_[i]));
  }
  TUTTI_RETURN_IF_ERROR(readers_[0]->CheckUnchanged());
  return readers_[0]->Report();
}

}  // namespace tutti::worker
