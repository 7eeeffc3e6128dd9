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
// The beginning of a coordinator's message (coordinator/requests/not_serving.h). Others that are
// UNAVAILABLE have waited themselves, or are full.
constexpr char kNotServing[] = "not serving: ";

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
  StartWhereTheCallerIs();
  if (options_.within == Duration::zero()) return;
  // By its name a service knows that we have come again, and ends the stream that we have lost.
  if (request_.request_id().empty()) {
    request_.set_request_id(absl::StrFormat("answer-%016x", RandomBits(options_.random, 0, 1)));
  }
}

void ResumingAnswer::StartWhereTheCallerIs() {
  outputs_.resize(std::max(request_.n(), 1u));
  const v1::Resume& resume = request_.resume();
  for (uint32_t i = 0; i < outputs_.size() && i < static_cast<uint32_t>(resume.outputs_size());
       ++i) {
    const v1::ResumedOutput& has = resume.outputs(static_cast<int>(i));
    Output& output = outputs_[i];
    output.ids.assign(has.ids().begin(), has.ids().end());
    output.finished = has.finished();
    if (has.ids_size() == 0 && has.count() > 0) {
      output.digest.emplace(has.digest());
      output.count = has.count();
    }
    order_.StartAt(i, output.count + static_cast<uint32_t>(has.ids_size()), has.finished());
  }
}

v1::Resume ResumingAnswer::WhatTheCallerHas() const {
  v1::Resume resume;
  resume.set_token(started_->resume_token());
  resume.set_allow_inexact(options_.allow_inexact || request_.resume().allow_inexact());
  for (const Output& output : outputs_) {
    v1::ResumedOutput& has = *resume.add_outputs();
    has.set_finished(output.finished);
    if (output.finished) continue;
    has.mutable_ids()->Assign(output.ids.begin(), output.ids.end());
    if (!output.digest.has_value()) continue;
    has.set_count(output.count);
    has.set_digest(output.digest->value());
  }
  return resume;
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
  if (options_.within == Duration::zero()) return;
  Output& output = outputs_[message.output()];
  for (const v1::OutputToken& token : message.tokens()) {
    if (output.digest.has_value()) {
      output.digest->Add(token.id());
      ++output.count;
    } else {
      output.ids.push_back(token.id());
    }
  }
  output.finished = message.has_finish();
  took_ |= message.tokens_size() > 0 || output.finished;
}

bool ResumingAnswer::MayGoOn(const absl::Status& status) const {
  if (took_ && (!started_.has_value() || started_->resume_token().empty())) return false;
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
  // Nobody is there, or it has no workers yet, but it served a moment ago.
  if (options_.served && (status.GetPayload(kNeverConnected).has_value() ||
                          absl::StartsWith(status.message(), kNotServing))) {
    return true;
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
  // An answer that has begun goes on as soon as it can.
  if (!absl::IsResourceExhausted(status) && took_) return pause;
  return std::max(pause, RetryDelayOf(status).value_or(Duration::zero()));
}

ResumingAnswer::End ResumingAnswer::OnStreamEnd(const absl::Status& status, bool broke,
                                                Instant now) {
  const absl::Status complete = order_.CheckEnd();
  if (status.ok()) return {.status = complete, .pause = {}};
  if (options_.within == Duration::zero()) return {.status = status, .pause = {}};
  if (complete.ok() && took_) return {};  // nothing is missing but the stream's own end
  heard_ |= broke && !status.GetPayload(kNeverConnected).has_value();
  // One that ends in peace asks its clients to come again.
  heard_ |= absl::IsUnavailable(status) && RetryDelayOf(status).has_value();
  if (!MayGoOn(status)) return {.status = status, .pause = {}};
  if (!silent_since_.has_value()) silent_since_ = options_.served && !heard_ ? options_.began : now;
  ++tries_;
  const Duration pause = NextPause(status);
  if (now + pause >= *silent_since_ + options_.within) {
    const char* const what =
        took_ ? "the answer broke off and could not go on" : "the answer could not begin";
    const auto seconds = static_cast<int64_t>(Seconds(options_.within));
    return {.status = Annotate(status, absl::StrCat(what, " for ", seconds, " s")), .pause = {}};
  }
  // Before that, the request is as the caller made it: it may go on with an answer itself.
  if (started_.has_value() && !started_->resume_token().empty()) {
    *request_.mutable_resume() = WhatTheCallerHas();
  }
  return {.status = {}, .pause = pause};
}

}  // namespace tutti::client
