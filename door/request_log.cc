#include "door/request_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "door/limits.h"
#include "program/logging.h"

namespace tutti::door {

void RequestRecord::Identify(const std::string& request_id, RequestId id, Hash128 tenant) {
  identified_ = true;
  // Perhaps not looked at yet: a name is what a request may have for one.
  request_id_ = request_id.substr(0, kRequestIdBytesMax);
  id_ = id;
  const bool named = tenant.low != 0 || tenant.high != 0;
  tenant_ = named ? absl::StrFormat("%016x", tenant.low) : "";
}

void RequestRecord::Count(const v1::GenerateResponse& response) {
  tokens_ += response.tokens_size();
  if (response.has_started()) prompt_tokens_ = response.started().prompt_tokens();
  if (!response.has_finish()) return;
  const v1::Finish& finish = response.finish();
  ++outputs_;
  prompt_tokens_ = std::max<int64_t>(prompt_tokens_, finish.usage().prompt_tokens());
  cached_tokens_ = std::max<int64_t>(cached_tokens_, finish.usage().cached_prompt_tokens());
  timing_ = finish.timing();
  reason_ = finish.reason() == v1::FINISH_REASON_LENGTH ? "length" : "stop";
}

void RequestRecord::LogEnd(const absl::Status& status, RefusalLines* refusals) const {
  if (!identified_) return;
  if (status.ok()) {
    const v1::Timing timing = timing_.value_or(v1::Timing());
    return LogFields("request ended", {{"request_id", request_id_},
                                       {"request", static_cast<int64_t>(id_.value())},
                                       {"tenant", tenant_},
                                       {"prompt_tokens", prompt_tokens_},
                                       {"cached_tokens", cached_tokens_},
                                       {"tokens", tokens_},
                                       {"outputs", outputs_},
                                       {"queue_ms", timing.queue_ms()},
                                       {"first_token_ms", timing.first_token_ms()},
                                       {"total_ms", timing.total_ms()},
                                       {"end", reason_}});
  }
  const RefusalLines::Leave leave = refusals->Ask(SystemClock().Now());
  if (!leave.granted) return;
  LogFields("request ended", {{"request_id", request_id_},
                              {"request", static_cast<int64_t>(id_.value())},
                              {"tenant", tenant_},
                              {"prompt_tokens", prompt_tokens_},
                              {"tokens", tokens_},
                              {"end", absl::StatusCodeToString(status.code())},
                              {"why", std::string(status.message())},
                              {"lines_left_out", leave.left_out}});
}

RefusalLines::Leave RefusalLines::Ask(Instant now) {
  const MutexLock lock(&mutex_);
  if (now >= second_ + std::chrono::seconds(1)) {
    second_ = now;
    written_ = 0;
  }
  if (written_ == kRefusalLinesPerSecond) {
    ++left_out_;
    return {};
  }
  ++written_;
  return {.granted = true, .left_out = std::exchange(left_out_, 0)};
}

}  // namespace tutti::door
