#include "gateway/kept_messages.h"

namespace tutti::gateway {
namespace {

// Longer ones make too large events.
constexpr int kTokensOfOneMax = 64;

void Join(const v1::GenerateResponse& message, v1::GenerateResponse* to) {
  to->mutable_tokens()->MergeFrom(message.tokens());
  to->mutable_text()->append(message.text());
  if (message.has_finish()) *to->mutable_finish() = message.finish();
}

}  // namespace

bool KeptMessages::Add(size_t prompt, const v1::GenerateResponse& message) {
  bytes_ += message.ByteSizeLong();
  if (bytes_ > bytes_max_) {
    kept_.clear();
    last_.clear();
    bytes_ = 0;
    return false;
  }
  const auto [found, added] = last_.try_emplace({prompt, message.output()}, kept_.size());
  if (!added) {
    v1::GenerateResponse& last = kept_[found->second].message;
    if (last.tokens_size() + message.tokens_size() <= kTokensOfOneMax && !message.has_started()) {
      Join(message, &last);
      return true;
    }
    found->second = kept_.size();
  }
  kept_.push_back({prompt, message});
  return true;
}

void KeptMessages::ForEach(
    const std::function<void(size_t, const v1::GenerateResponse&)>& visit) const {
  for (const Kept& kept : kept_) visit(kept.prompt, kept.message);
}

}  // namespace tutti::gateway
