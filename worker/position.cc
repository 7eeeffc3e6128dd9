#include "worker/position.h"

#include <algorithm>

namespace tutti::worker {

std::string_view ActivityName(Activity activity) {
  switch (activity) {
    case Activity::kIdle:
      return "";
    case Activity::kFrames:
      return "handling frames";
    case Activity::kLoading:
      return "loading its shard";
    case Activity::kLinks:
      return "making or ending links";
    case Activity::kStep:
      return "computing a step";
    case Activity::kDraft:
      return "computing with its draft model";
    case Activity::kRank:
      return "waiting for another rank";
    case Activity::kRows:
      return "waiting for rows of the stage before";
  }
  return "";
}

Position::Doing Position::doing() const {
  const uint64_t packed = doing_.load(std::memory_order_acquire);
  return {static_cast<Activity>(packed & 0xff), std::chrono::microseconds(packed >> 8)};
}

void Position::Set(Doing doing) {
  const auto allowed = static_cast<uint64_t>(
      std::max<int64_t>(0, std::chrono::ceil<std::chrono::microseconds>(doing.allowed).count()));
  doing_.store(allowed << 8 | static_cast<uint64_t>(doing.activity), std::memory_order_release);
}

std::string Position::waiting_for() const {
  const MutexLock lock(&mutex_);
  return waiting_for_;
}

// The name is copied into memory that is kept: nothing is allocated in later steps.
Position::Meanwhile::Meanwhile(Position* position, Activity activity,
                               const std::string& waiting_for)
    : position_(position), before_(position->doing()), named_(!waiting_for.empty()) {
  if (named_) {
    const MutexLock lock(&position_->mutex_);
    position_->waiting_for_ = waiting_for;
  }
  position_->Set({activity, {}});
}

Position::Meanwhile::~Meanwhile() {
  position_->Set(before_);
  if (!named_) return;
  const MutexLock lock(&position_->mutex_);
  position_->waiting_for_.clear();
}

}  // namespace tutti::worker
