#include "client/output_order.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::client {

absl::Status OutputOrder::Check(const v1::GenerateResponse& message) {
  if (message.output() >= asked_) {
    return absl::InternalError(absl::StrCat("the service sent output ", message.output(), " where ",
                                            asked_, " were asked for"));
  }
  Output& output = outputs_[message.output()];
  if (output.finished) {
    return absl::InternalError("the service sent a message after the one with `finish`");
  }
  if (message.tokens_size() > 0 && message.index() != output.tokens) {
    return absl::InternalError(absl::StrCat("the service sent output token ", message.index(),
                                            " where token ", output.tokens, " was due"));
  }
  output.tokens += static_cast<uint32_t>(message.tokens_size());
  output.finished = message.has_finish();
  if (output.finished) output.finish = message.finish();
  return absl::OkStatus();
}

absl::Status OutputOrder::CheckEnd() const {
  const bool complete =
      outputs_.size() == asked_ && std::all_of(outputs_.begin(), outputs_.end(),
                                               [](const auto& at) { return at.second.finished; });
  if (complete) return absl::OkStatus();
  return absl::InternalError("the service ended the stream without `finish`");
}

std::vector<v1::Finish> OutputOrder::ReleaseFinishes() {
  std::vector<v1::Finish> finishes;
  for (auto& [number, output] : outputs_) finishes.push_back(std::move(output.finish));
  return finishes;
}

}  // namespace tutti::client
