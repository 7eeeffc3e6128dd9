// The bytes that one link may have delivered that nobody has taken yet: so no peer can fill a
// mailbox that others share.
//
// The receiver counts each frame that it queues and lets go of the count when it takes the frame
// out. While a budget is used up, the transport does not read the link: the peer's sends then wait
// in its own queue (gRPC's flow control), and nothing is dropped.
//
// A budget begins as a stranger's or a known peer's. A stranger has one frame at a time, of limited
// size, until the receiver has seen who it is; and the oldest stranger of a listener makes way when
// there are more than kStrangersMax. Before a peer has proved itself it is the gate's stranger
// (link_gate.h), afterwards the receiver's until hello.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "transport/limits.h"

namespace tutti::transport {

struct ReceiveLimits {
  int64_t frames = kUnreadFramesMax;
  int64_t bytes = kUnreadBytesMax;
  int64_t frame_bytes = kFrameBytesMax;
};

class ReceiveBudget : public std::enable_shared_from_this<ReceiveBudget> {
 public:
  static std::shared_ptr<ReceiveBudget> OfStranger(int64_t frame_bytes = kStrangerFrameBytesMax);
  static std::shared_ptr<ReceiveBudget> OfKnownPeer(const ReceiveLimits& limits = {});

  // A frame that counts for as long as this lives.
  class Unread {
   public:
    Unread() = default;
    ~Unread() {
      if (budget_ != nullptr) budget_->GiveBack(bytes_);
    }
    Unread(Unread&&) = default;
    Unread& operator=(Unread&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }

   private:
    friend class ReceiveBudget;
    Unread(std::shared_ptr<ReceiveBudget> budget, int64_t bytes)
        : budget_(std::move(budget)), bytes_(bytes) {}
    std::shared_ptr<ReceiveBudget> budget_;
    int64_t bytes_ = 0;
  };

  // --- For the receiver.
  // Nothing when the budget is used up, which only links that cannot wait (in process) let happen.
  std::optional<Unread> Count(int64_t bytes);
  void MarkKnown(const ReceiveLimits& limits = {});

  // --- For the transport.
  bool is_known() const;
  int64_t frame_bytes_max() const;
  bool has_room() const;
  // False: there is room. Otherwise `when_room` is called once there is; in place of one given
  // before.
  bool WaitForRoom(std::function<void()> when_room);

 private:
  ReceiveBudget(bool is_known, const ReceiveLimits& limits)
      : is_known_(is_known), limits_(limits) {}
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return frames_ < limits_.frames && bytes_ < limits_.bytes;
  }
  void GiveBack(int64_t bytes);

  mutable Mutex mutex_;
  bool is_known_ ABSL_GUARDED_BY(mutex_);
  ReceiveLimits limits_ ABSL_GUARDED_BY(mutex_);
  int64_t frames_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> when_room_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::transport
