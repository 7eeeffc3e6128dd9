#include "worker/fetch/weights_talk.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {

WeightsTalk::WeightsTalk(Options options)
    : options_(std::move(options)), backoff_(kFirstRedial, kSlowestLeaderRedial) {}

void WeightsTalk::Dial() {
  if (options_.clock->Now() < next_dial_) return;
  answered_ = false;
  link_ = std::make_unique<WeightsLink>(options_.dialer, address(), options_.hello);
}

void WeightsTalk::Lose(const absl::Status& why) {
  const Instant now = options_.clock->Now();
  link_.reset();
  lost_ = why;
  next_dial_ = now + backoff_.Next();
  if (answered_ || now >= next_log_) {
    next_log_ = now + kWaitingLogInterval;
    spdlog::log(absl::IsUnavailable(why) ? spdlog::level::info : spdlog::level::warn,
                "no weights from the coordinator at {}: {}; trying again", address(),
                std::string(why.message()));
  }
  // One that stands by says so; it is another that leads.
  at_ = (at_ + 1) % options_.addresses.size();
}

// A link with questions that nobody waits for any more is of no use.
absl::Status WeightsTalk::Run(const Exchange& exchange, Duration patience, const KeepOn& keep_on) {
  absl::Status status = AskAll(exchange, patience, keep_on);
  if (!status.ok()) HangUp();
  return status;
}

absl::Status WeightsTalk::AskAll(const Exchange& exchange, Duration patience,
                                 const KeepOn& keep_on) {
  const Clock& clock = *options_.clock;
  size_t next = 0;
  size_t done = 0;
  std::deque<size_t> again, asked;
  Instant answered = clock.Now();
  while (done < exchange.count) {
    TUTTI_RETURN_IF_ERROR(keep_on());
    if (patience < clock.Now() - answered) {
      return absl::UnavailableError(absl::StrCat(
          "the coordinator has answered nothing for ", static_cast<int64_t>(Seconds(patience)),
          " s", lost_.ok() ? "" : absl::StrCat(": ", lost_.message())));
    }
    if (link_ == nullptr) Dial();
    while (link_ != nullptr && asked.size() < kFetchWindow &&
           (!again.empty() || next < exchange.count)) {
      asked.push_back(again.empty() ? next++ : again.front());
      if (!again.empty()) again.pop_front();
      link_->Ask(exchange.question(asked.back()));
    }
    const Instant look = clock.Now() + kFetchLookInterval;
    if (link_ == nullptr) {
      std::this_thread::sleep_until(std::min(look, next_dial_));
      continue;
    }
    auto answer = link_->Next(look);
    if (answer.ok() && !answer->has_value()) continue;
    if (!answer.ok()) {
      again.insert(again.begin(), asked.begin(), asked.end());
      asked.clear();
      Lose(answer.status());
      continue;
    }
    // The coordinator is there, and others are before us, or its rate (decision 67).
    if ((*answer)->frame.has_beat()) {
      answered = clock.Now();
      continue;
    }
    if (asked.empty()) {
      return absl::InvalidArgumentError("the coordinator sends answers to no question");
    }
    answered = clock.Now();
    answered_ = true;
    backoff_.Reset();
    const size_t number = asked.front();
    asked.pop_front();
    TUTTI_ASSIGN_OR_RETURN(const Taken taken, exchange.take(number, **answer));
    if (taken == Taken::kYes) {
      ++done;
    } else {
      again.push_back(number);
    }
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
