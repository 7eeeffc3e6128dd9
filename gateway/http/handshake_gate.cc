#include "gateway/http/handshake_gate.h"

#include <algorithm>
#include <utility>

namespace tutti::gateway {

bool HandshakeGate::HasPlaceFor(const std::string& account) const {
  const auto found = of_account_.find(account);
  const int64_t has = found == of_account_.end() ? 0 : found->second;
  return has + 1 <= places_ - under_way_ - 1;
}

void HandshakeGate::Enter(const std::string& account, std::weak_ptr<void> who,
                          std::function<void()> begin) {
  std::vector<Waiting>& waiting = waiting_[account];
  // Those that have gone meanwhile are as many as the others at most.
  if (waiting.size() == waiting.capacity()) {
    std::erase_if(waiting, [](const Waiting& one) { return one.who.expired(); });
    waiting.reserve(2 * waiting.size() + 4);
  }
  waiting.push_back({std::move(who), std::move(begin)});
  BeginNext(account);
}

void HandshakeGate::Leave(const std::string& account) {
  --under_way_;
  const auto found = of_account_.find(account);
  if (--found->second == 0) of_account_.erase(found);
  BeginInTurn();
}

void HandshakeGate::BeginInTurn() {
  size_t asked = 0;
  for (const size_t accounts = waiting_.size(); asked < accounts && !waiting_.empty(); ++asked) {
    if (under_way_ + 2 > places_) return;  // for nobody
    auto next = waiting_.upper_bound(last_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_ = next->first;
    BeginNext(std::string(last_));
  }
}

void HandshakeGate::BeginNext(const std::string& account) {
  const auto found = waiting_.find(account);
  while (found != waiting_.end() && !found->second.empty()) {
    if (!HasPlaceFor(account)) return;
    const Waiting next = std::move(found->second.back());
    found->second.pop_back();
    const std::shared_ptr<void> who = next.who.lock();
    if (who == nullptr) continue;
    ++under_way_;
    ++of_account_[account];
    if (found->second.empty()) waiting_.erase(found);
    return next.begin();
  }
  if (found != waiting_.end()) waiting_.erase(found);
}

}  // namespace tutti::gateway
