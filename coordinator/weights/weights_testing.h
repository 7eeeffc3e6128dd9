// A checkpoint to be offered, links that keep what is sent on them, and time, for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/files_testing.h"
#include "base/mutex.h"
#include "coordinator/weights/weights_files.h"
#include "model/checkpoint_testing.h"
#include "model/digest_run.h"
#include "model/safetensors.h"
#include "transport/link.h"

namespace tutti::coordinator {

// A config.json and one file of weights, of `bytes` bytes, in the folder.
inline std::shared_ptr<const WeightsFiles> OpenWeightsFiles(const TempDir& dir,
                                                            const std::string& file,
                                                            int64_t bytes) {
  dir.Write("config.json", "{\"a\": 1}");
  dir.Write(file, model::FileOf({model::TensorOf("a", model::StoredType::kU8, {bytes})}));
  std::shared_ptr<const model::Checkpoint> checkpoint = *model::Checkpoint::Open(dir.path());
  std::promise<std::shared_ptr<const model::CheckpointDigests>> known;
  const model::DigestRun run(
      checkpoint, {},
      {.on_progress = [](int) {},
       .on_failure = [](const absl::Status& why) { ADD_FAILURE() << why; },
       .on_known = [&](auto digests, int64_t, double) { known.set_value(std::move(digests)); }});
  return *WeightsFiles::Open("print", known.get_future().get());
}

// Keeps what is sent; payloads until it is told to let go of them.
class KeepingLink : public transport::Link {
 public:
  absl::Status Send(v1::Frame frame, transport::Payload payload) override {
    const MutexLock lock(&mutex_);
    sent_.emplace_back(std::move(frame), std::move(payload));
    changed_.NotifyAll();
    return absl::OkStatus();
  }
  void Close(absl::Status reason) override {
    const MutexLock lock(&mutex_);
    closed_ = std::move(reason);
    is_closed_ = true;
    changed_.NotifyAll();
  }
  // The messages that it keeps count as sent, unless it takes nothing.
  transport::LinkStats stats() const override {
    const MutexLock lock(&mutex_);
    return {.frames_out = takes_ ? static_cast<int64_t>(sent_.size()) : 0};
  }
  std::string peer() const override { return "test"; }
  void TakeNothing() { takes_ = false; }

  // Waits until so many frames were sent in all.
  v1::Frame Wait(size_t number, std::string* bytes = nullptr) {
    const MutexLock lock(&mutex_);
    while (sent_.size() <= number) changed_.Wait(&mutex_);
    if (bytes != nullptr) {
      for (const auto& piece : sent_[number].second.chunks) {
        bytes->append(reinterpret_cast<const char*>(piece.data()), piece.size());
      }
    }
    return sent_[number].first;
  }
  absl::Status WaitClosed() {
    const MutexLock lock(&mutex_);
    while (!is_closed_) changed_.Wait(&mutex_);
    return closed_;
  }
  size_t sent() {
    const MutexLock lock(&mutex_);
    return sent_.size();
  }
  void LetGo() {
    const MutexLock lock(&mutex_);
    for (auto& [frame, payload] : sent_) payload = {};
  }

 private:
  mutable Mutex mutex_;
  bool takes_ = true;
  ConditionVariable changed_;
  std::vector<std::pair<v1::Frame, transport::Payload>> sent_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Time that passes when a test says so, for all threads.
class SteppedClock : public Clock {
 public:
  Instant Now() const override { return Instant(Duration(now_.load())); }
  void Advance(Duration step) { now_ += step.count(); }

 private:
  std::atomic<int64_t> now_{0};
};

}  // namespace tutti::coordinator
