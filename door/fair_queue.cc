#include "door/fair_queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "door/limits.h"

namespace tutti::door {

void FairQueue::Push(absl::Span<const std::string_view> path, Work work) {
  ++size_;
  if (path.empty()) return own_[SizeClassOf(work.bytes)].push_back(std::move(work));
  FairQueue* const member = FindOrAdd(path.front());
  without_.erase(member);
  if (member->size_ == 0) member->begun_ = std::max(member->begun_, turn_);
  member->Push(path.subspan(1), std::move(work));
  Enlist(member);
}

FairQueue::Size FairQueue::SizeClassOf(int64_t bytes) {
  if (bytes <= kSmallRequestBytes) return kSmall;
  return bytes <= kMediumRequestBytes ? kMedium : kLarge;
}

bool FairQueue::Has(Size largest) const {
  for (size_t size = 0; size <= largest; ++size) {
    if (!own_[size].empty() || !with_[size].empty()) return true;
  }
  return false;
}

void FairQueue::Enlist(FairQueue* member) {
  for (const Size size : {kSmall, kMedium, kLarge}) {
    if (member->Has(size)) with_[size].insert(member);
  }
  if (member->size_ == 0) without_.insert(member);
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

FairQueue::Work FairQueue::PopOwn(Size largest) {
  size_t size = 0;
  while (size <= largest && own_[size].empty()) ++size;
  if (size > largest) return {};
  Work work = std::move(own_[size].front());
  own_[size].pop_front();
  --size_;
  return work;
}

FairQueue::Work FairQueue::Pop(Size largest) {
  if (members_.empty()) return PopOwn(largest);
  if (with_[largest].empty()) return {};
  FairQueue* const member = *with_[largest].begin();
  const auto waiting = static_cast<int64_t>(with_[kLarge].size());
  for (Turns& turns : with_) turns.erase(member);
  Work work = member->Pop(largest);
  --size_;
  const int64_t cost = work.bytes + kRequestCostBytes;
  turn_ = std::max(turn_, member->begun_) + (cost + waiting - 1) / waiting;
  member->begun_ += cost;
  Enlist(member);
  Forget();
  return work;
}

}  // namespace tutti::door
