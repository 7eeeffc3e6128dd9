#include "transport/receive_budget.h"

namespace tutti::transport {

std::shared_ptr<ReceiveBudget> ReceiveBudget::OfStranger(int64_t frame_bytes) {
  return std::shared_ptr<ReceiveBudget>(new ReceiveBudget(
      /*is_known=*/false,
      {.frames = kStrangerFramesMax, .bytes = frame_bytes, .frame_bytes = frame_bytes}));
}

std::shared_ptr<ReceiveBudget> ReceiveBudget::OfKnownPeer(const ReceiveLimits& limits) {
  return std::shared_ptr<ReceiveBudget>(new ReceiveBudget(/*is_known=*/true, limits));
}

std::optional<ReceiveBudget::Unread> ReceiveBudget::Count(int64_t bytes) {
  {
    const MutexLock lock(&mutex_);
    if (!HasRoom()) return std::nullopt;
    ++frames_;
    bytes_ += bytes;
  }
  return Unread(shared_from_this(), bytes);
}

void ReceiveBudget::GiveBack(int64_t bytes) {
  std::function<void()> when_room;
  {
    const MutexLock lock(&mutex_);
    --frames_;
    bytes_ -= bytes;
    if (HasRoom()) when_room.swap(when_room_);
  }
  if (when_room) when_room();
}

void ReceiveBudget::MarkKnown(const ReceiveLimits& limits) {
  std::function<void()> when_room;
  {
    const MutexLock lock(&mutex_);
    is_known_ = true;
    limits_ = limits;
    if (HasRoom()) when_room.swap(when_room_);
  }
  if (when_room) when_room();
}

bool ReceiveBudget::is_known() const {
  const MutexLock lock(&mutex_);
  return is_known_;
}

int64_t ReceiveBudget::frame_bytes_max() const {
  const MutexLock lock(&mutex_);
  return limits_.frame_bytes;
}

bool ReceiveBudget::has_room() const {
  const MutexLock lock(&mutex_);
  return HasRoom();
}

bool ReceiveBudget::WaitForRoom(std::function<void()> when_room) {
  const MutexLock lock(&mutex_);
  if (HasRoom()) return false;
  when_room_ = std::move(when_room);
  return true;
}

}  // namespace tutti::transport
