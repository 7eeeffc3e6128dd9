#include "gateway/parse/json_calls.h"

#include <utility>

#include "gateway/limits.h"

namespace tutti::gateway {

void JsonCalls::BeginCall(std::string markup) {
  call_.emplace(known_);
  held_ = std::move(markup);
}

JsonCalls::At JsonCalls::PushCall(char c, AnswerPieces* pieces) {
  const bool was_named = call_->named(), was_complete = call_->complete();
  std::string arguments;
  const JsonCall::At at = call_->Push(c, &arguments);
  bool wrong = at == JsonCall::At::kWrong || held_.size() >= kHeldBytesMax;
  if (at == JsonCall::At::kNamed) wrong = !Announce(call_->name(), pieces);
  if (wrong) {
    Text(std::exchange(held_, {}), pieces);
    return At::kWrong;
  }
  if (at == JsonCall::At::kNamed) held_.clear();
  if (!call_->named()) held_ += c;
  if (call_->named()) Arguments(arguments, pieces);
  if (call_->named() && call_->complete() && !(was_named && was_complete)) Complete();
  return at == JsonCall::At::kEnd ? At::kEnd : At::kInside;
}

void JsonCalls::FinishCall(AnswerPieces* pieces) { Text(std::exchange(held_, {}), pieces); }

}  // namespace tutti::gateway
