#include "door/byte_budget.h"

#include <utility>

namespace tutti::door {

ByteBudget::Charge::Charge(Charge&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      client_(std::move(other.client_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

ByteBudget::Charge& ByteBudget::Charge::operator=(Charge&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(client_, other.client_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ByteBudget::Charge::~Charge() {
  if (budget_ != nullptr) budget_->Change(client_, -bytes_);
}

bool ByteBudget::Charge::Resize(int64_t bytes) {
  if (!budget_->Change(client_, bytes - bytes_)) return false;
  bytes_ = bytes;
  return true;
}

std::optional<ByteBudget::Charge> ByteBudget::Take(const std::string& client, int64_t bytes) {
  if (!Change(client, bytes)) return std::nullopt;
  return Charge(this, client, bytes);
}

int64_t ByteBudget::held() const {
  const MutexLock lock(&mutex_);
  return held_;
}

bool ByteBudget::Change(const std::string& client, int64_t by) {
  const MutexLock lock(&mutex_);
  const auto found = held_by_.find(client);
  const int64_t has = found == held_by_.end() ? 0 : found->second;
  if (by > 0 && has + by > total_ - held_ - by) return false;
  held_ += by;
  if (has + by == 0) {
    if (found != held_by_.end()) held_by_.erase(found);
  } else if (found != held_by_.end()) {
    found->second += by;
  } else {
    held_by_.emplace(client, by);
  }
  return true;
}

}  // namespace tutti::door
