#include "client/resuming_answer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/retry_delay.h"
#include "client/limits.h"

namespace tutti::client {
namespace {

constexpr char kNeverConnected[] = "tutti.never_connected";

}  // namespace

bool IsNeverConnected(absl::string_view words_of_grpc) {
  return absl::StrContains(words_of_grpc, "failed to connect") ||
         absl::StrContains(words_of_grpc, "connections to all backends failing") ||
         absl::StrContains(words_of_grpc, "DNS resolution failed");
}

absl::Status NeverConnected(absl::Status status) {
  status.SetPayload(kNeverConnected, absl::Cord());
  return status;
}

ResumingAnswer::ResumingAnswer(v1::GenerateRequest request, const Options& options)
    : options_(options),
      request_(std::move(request)),
      order_(std::max(request_.n(), 1u)),
      pause_(kResumePauseMin) {
  if (options_.within == Duration::zero()) return;
  outputs_.resize(std::max(request_.n(), 1u));
  // By its name a service knows that we have come again, and ends the stream that we have lost.
  if (request_.request_id().empty()) {
    request_.set_request_id(absl::StrFormat("answer-%016x", RandomBits(options_.random, 0, 1)));
  }
}

absl::Status ResumingAnswer::Check(v1::GenerateResponse* message) {
  TUTTI_RETURN_IF_ERROR(order_.Check(*message));
  heard_ = true;
  tries_ = 0;
  pause_ = kResumePauseMin;
  silent_since_.reset();
  if (!message->has_started()) return absl::OkStatus();
  const bool first = !started_.has_value();
  started_ = message->started();
  if (!first) message->clear_started();
  return absl::OkStatus();
}

void ResumingAnswer::Take(const v1::GenerateResponse& message) {
  if (outputs_.empty()) return;
  Output& output = outputs_[message.output()];
  for (const v1::OutputToken& token : message.tokens()) output.ids.push_back(token.id());
  output.finished = message.has_finish();
}

bool ResumingAnswer::MayGoOn(const absl::Status& status) const {
  const bool has_tokens = std::any_of(outputs_.begin(), outputs_.end(), [](const Output& output) {
    return !output.ids.empty() || output.finished;
  });
  if (has_tokens && (!started_.has_value() || started_->resume_token().empty())) return false;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      break;
    // A connection that breaks; our service says neither by itself, unless it is told to.
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
      return heard_;
    // Full for now: who has waited and heard already waits once more.
    case absl::StatusCode::kResourceExhausted:
      return heard_ && RetryDelayOf(status).has_value();
    default:
      return false;
  }
  // Nothing is there, or it does not serve: every address is tried once.
  return heard_ || tries_ + 1 < options_.addresses;
}

Duration ResumingAnswer::NextPause(const absl::Status& status) {
  // Another coordinator may be there already.
  if (tries_ < options_.addresses && options_.addresses > 1) return Duration::zero();
  const Duration longest = pause_;
  pause_ = std::min(2 * pause_, kResumePauseMax);
  const double cut = static_cast<double>(RandomBits(options_.random, ++draws_, 2) >> 11) * 0x1p-53;
  const auto pause = std::chrono::duration_cast<Duration>(longest * (1 - cut / 2));
  if (!absl::IsResourceExhausted(status)) return pause;
  return std::max(pause, RetryDelayOf(status).value_or(Duration::zero()));
}

ResumingAnswer::End ResumingAnswer::OnStreamEnd(const absl::Status& status, bool broke,
                                                Instant now) {
  const absl::Status complete = order_.CheckEnd();
  if (status.ok()) return {.status = complete, .pause = {}};
  if (options_.within == Duration::zero()) return {.status = status, .pause = {}};
  if (complete.ok()) return {};  // nothing is missing but the stream's own end
  heard_ |= broke && !status.GetPayload(kNeverConnected).has_value();
  if (!MayGoOn(status)) return {.status = status, .pause = {}};
  if (!silent_since_.has_value()) silent_since_ = now;
  ++tries_;
  const Duration pause = NextPause(status);
  if (now + pause >= *silent_since_ + options_.within) {
    return {.status = Annotate(status,
                               absl::StrCat("the answer broke off and could not go on for ",
                                            static_cast<int64_t>(Seconds(options_.within)), " s")),
            .pause = {}};
  }
  // Before that, the request is as the caller made it: it may go on with an answer itself.
  if (started_.has_value() && !started_->resume_token().empty()) {
    request_.clear_resume();
    v1::Resume& resume = *request_.mutable_resume();
    resume.set_token(started_->resume_token());
    for (const Output& output : outputs_) {
      v1::ResumedOutput& has = *resume.add_outputs();
      has.set_finished(output.finished);
      if (output.finished) continue;
      has.mutable_ids()->Assign(output.ids.begin(), output.ids.end());
    }
  }
  return {.status = {}, .pause = pause};
}

}  // namespace tutti::client
