// Shared by the tests of links: a handler that writes its calls down, and frames to send.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "transport/grpc/grpc_link.h"
#include "transport/inproc_link.h"
#include "transport/link.h"

namespace tutti::transport {

inline constexpr std::chrono::seconds kPatience{20};

// The calls at one end of a link. Outlives the handler, which belongs to the link: its destructor
// waits for that, for a handler has things to do after it said that the link is closed.
class Inbox {
 public:
  struct Received {
    v1::Frame frame;
    Payload payload;
  };

  ~Inbox() { EXPECT_TRUE(WaitForHandlerGone()) << "the link outlives its inbox"; }

  std::unique_ptr<LinkHandler> MakeHandler();

  // False when it did not happen within kPatience.
  bool WaitForFrames(size_t count) {
    return Wait([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return frames_.size() >= count; });
  }
  bool WaitForClosed() {
    return Wait([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_.has_value(); });
  }
  bool WaitForHandlerGone() {
    return Wait([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return handlers_ == 0; });
  }
  absl::Status closed() {
    const MutexLock lock(&mutex_);
    return closed_.value_or(absl::UnknownError("not closed"));
  }
  bool is_closed() {
    const MutexLock lock(&mutex_);
    return closed_.has_value();
  }
  std::vector<Received> frames() {
    const MutexLock lock(&mutex_);
    return frames_;
  }
  size_t frame_count() {
    const MutexLock lock(&mutex_);
    return frames_.size();
  }
  void Forget() {
    const MutexLock lock(&mutex_);
    frames_.clear();
  }
  // A handler that blocks in OnFrame, as none may, to see what the link does then.
  void Block() {
    const MutexLock lock(&mutex_);
    is_blocked_ = true;
  }
  void Unblock() {
    const MutexLock lock(&mutex_);
    is_blocked_ = false;
    changed_.NotifyAll();
  }
  // Called in OnFrame instead of writing the frame down. Set before frames come.
  std::function<void(v1::Frame, Payload)> on_frame;
  // Called after OnClosed was written down.
  std::function<void()> on_closed;
  // Calls that no link may make: two at a time, one after OnClosed, a second OnClosed.
  std::atomic<int> violations{0};

 private:
  class Handler;

  bool Wait(const std::function<bool()>& is_done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (!is_done()) {
      if (!changed_.WaitUntil(&mutex_, deadline)) return is_done();
    }
    return true;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Received> frames_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
  bool is_blocked_ ABSL_GUARDED_BY(mutex_) = false;
  int handlers_ ABSL_GUARDED_BY(mutex_) = 0;
};

class Inbox::Handler : public LinkHandler {
 public:
  explicit Handler(Inbox* inbox) : inbox_(inbox) {
    const MutexLock lock(&inbox_->mutex_);
    ++inbox_->handlers_;
  }
  ~Handler() override {
    const MutexLock lock(&inbox_->mutex_);
    if (!inbox_->closed_.has_value()) ++inbox_->violations;
    --inbox_->handlers_;
    inbox_->changed_.NotifyAll();
  }

  void OnFrame(v1::Frame frame, Payload payload) override {
    if (is_called_.exchange(true)) ++inbox_->violations;
    if (inbox_->on_frame) {
      inbox_->on_frame(std::move(frame), std::move(payload));
    } else {
      const MutexLock lock(&inbox_->mutex_);
      if (inbox_->closed_.has_value()) ++inbox_->violations;
      inbox_->frames_.push_back({std::move(frame), std::move(payload)});
      inbox_->changed_.NotifyAll();
      while (inbox_->is_blocked_) inbox_->changed_.Wait(&inbox_->mutex_);
    }
    is_called_ = false;
  }

  void OnClosed(absl::Status reason) override {
    if (is_called_.exchange(true)) ++inbox_->violations;
    {
      const MutexLock lock(&inbox_->mutex_);
      if (inbox_->closed_.has_value()) ++inbox_->violations;
      inbox_->closed_ = std::move(reason);
      inbox_->changed_.NotifyAll();
    }
    if (inbox_->on_closed) inbox_->on_closed();
    is_called_ = false;
  }

 private:
  Inbox* const inbox_;
  std::atomic<bool> is_called_{false};
};

inline std::unique_ptr<LinkHandler> Inbox::MakeHandler() { return std::make_unique<Handler>(this); }

class LinkHandlerThatIgnores : public LinkHandler {
 public:
  void OnFrame(v1::Frame frame, Payload payload) override {}
  void OnClosed(absl::Status reason) override {}
};

// A frame that says which it is.
inline v1::Frame NumberedFrame(uint64_t number) {
  v1::Frame frame;
  frame.set_epoch(1);
  frame.mutable_activation()->set_step(number);
  return frame;
}

// A payload that owns its bytes; no two positions near each other are alike.
inline Payload OwnedPayload(size_t size, uint8_t seed = 0, size_t chunk_bytes = SIZE_MAX) {
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  for (size_t i = 0; i < size; ++i) (*bytes)[i] = static_cast<std::byte>(seed + i * 7 + i / 251);
  Payload payload;
  for (size_t at = 0; at < size; at += std::min(chunk_bytes, size - at)) {
    payload.chunks.push_back(std::span(*bytes).subspan(at, std::min(chunk_bytes, size - at)));
  }
  payload.owner = std::move(bytes);
  return payload;
}

inline std::string Join(const Payload& payload) {
  std::string joined;
  for (const auto& chunk : payload.chunks) {
    joined.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  }
  return joined;
}

// A unix address of its own.
inline std::string FreshUnixAddress() {
  static std::atomic<int> counter{0};
  return "unix:" + testing::TempDir() + "tutti-link-" + std::to_string(getpid()) + "-" +
         std::to_string(counter++);
}

}  // namespace tutti::transport
