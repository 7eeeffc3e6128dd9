#include "door/fair_queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "door/limits.h"

namespace tutti::door {

void FairQueue::Push(absl::Span<const std::string_view> path, Work work) {
  ++size_;
  if (path.empty()) {
    (work.bytes <= kSmallRequestBytes ? small_ : large_).push_back(std::move(work));
    return;
  }
  FairQueue* const member = FindOrAdd(path.front());
  without_.erase(member);
  if (member->size_ == 0) member->begun_ = std::max(member->begun_, turn_);
  member->Push(path.subspan(1), std::move(work));
  with_any_.insert(member);
  if (member->has_small()) with_small_.insert(member);
}

FairQueue* FairQueue::FindOrAdd(std::string_view name) {
  const auto found = members_.find(name);
  if (found != members_.end()) return found->second.get();
  auto member = std::make_unique<FairQueue>();
  member->name_ = std::string(name);
  return members_.emplace(name, std::move(member)).first->second.get();
}

const FairQueue* FairQueue::Find(std::string_view name) const {
  const auto found = members_.find(name);
  return found == members_.end() ? nullptr : found->second.get();
}

size_t FairQueue::SizeOf(std::string_view name) const {
  const FairQueue* const member = Find(name);
  return member == nullptr ? 0 : member->size();
}

// A member without work that is level with the others is as good as a new one; and of those that
// are not, so many are remembered.
void FairQueue::Forget() {
  while (!without_.empty() && (size_ == 0 || (*without_.begin())->begun_ <= turn_ ||
                               without_.size() > kTurnsRemembered)) {
    FairQueue* const member = *without_.begin();
    without_.erase(without_.begin());
    members_.erase(members_.find(member->name_));
  }
}

FairQueue::Work FairQueue::PopOwn() {
  std::deque<Work>& queue = small_.empty() ? large_ : small_;
  Work work = std::move(queue.front());
  queue.pop_front();
  --size_;
  return work;
}

FairQueue::Work FairQueue::Pop(bool small_only) {
  if (members_.empty()) return size_ == 0 || (small_only && small_.empty()) ? Work{} : PopOwn();
  const Turns& turns = small_only ? with_small_ : with_any_;
  if (turns.empty()) return {};
  FairQueue* const member = *turns.begin();
  const auto waiting = static_cast<int64_t>(with_any_.size());
  with_small_.erase(member);
  with_any_.erase(member);
  Work work = member->Pop(small_only);
  --size_;
  const int64_t cost = work.bytes + kRequestCostBytes;
  turn_ = std::max(turn_, member->begun_) + (cost + waiting - 1) / waiting;
  member->begun_ += cost;
  if (member->has_small()) with_small_.insert(member);
  (member->size_ > 0 ? with_any_ : without_).insert(member);
  Forget();
  return work;
}

}  // namespace tutti::door
