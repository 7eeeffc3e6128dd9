#include "worker/device_links/device_links.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "spdlog/spdlog.h"

namespace tutti::worker {

DeviceLinks::DeviceLinks(Options options, std::string worker_id, const Clock* clock, Wait wait)
    : options_(std::move(options)),
      worker_id_(std::move(worker_id)),
      clock_(clock),
      wait_(std::move(wait)) {}

DeviceLinks::~DeviceLinks() { End(); }

std::unique_ptr<DeviceLinkEnd> DeviceLinks::NewEnd(DeviceLinkEnd::Side side) {
  return std::make_unique<DeviceLinkEnd>(options_.new_link(), side, worker_id_);
}

void DeviceLinks::Begin(const std::string& previous, const std::vector<std::string>& next,
                        StageRunner::LinkMemory memory) {
  End();
  if (!options_.new_link || options_.scope == kernels::DeviceExchangeScope::kOff || distrusted_) {
    return;
  }
  memory_ = std::move(memory);
  if (!previous.empty() && !memory_.in.empty()) {
    if (previous_ == nullptr) previous_ = NewEnd(DeviceLinkEnd::Side::kReceiver);
    previous_->Begin(previous, options_.scope);
    has_previous_ = true;
  }
  if (memory_.out.empty()) return;
  next_count_ = next.size();
  for (size_t i = 0; i < next.size(); ++i) {
    if (i == next_.size()) next_.push_back({.end = NewEnd(DeviceLinkEnd::Side::kSender)});
    next_[i].end->Begin(next[i], options_.scope);
  }
}

void DeviceLinks::End() {
  if (previous_ != nullptr) previous_->End();
  for (Next& next : next_) {
    next.end->End();
    next.up = false;
  }
  has_previous_ = false;
  next_count_ = 0;
  memory_ = {};
  sent_ = 0;
  expected_.clear();
  receiving_ = 0;
  released_ = 0;
}

std::string DeviceLinks::DescriptionFor(size_t next) const {
  return next < next_count_ ? next_[next].end->description() : "";
}

std::string DeviceLinks::AnswerToPrevious(const std::string& description) {
  return has_previous_ ? previous_->Answer(description) : "";
}

void DeviceLinks::HandleAnswer(size_t next, const std::string& answer) {
  if (next < next_count_) next_[next].end->HandleAnswer(answer);
}

void DeviceLinks::HandleUp(size_t next) {
  if (next < next_count_) next_[next].up = true;
}

DeviceLinkEnd* DeviceLinks::FirstUndecided() const {
  if (has_previous_ && previous_->undecided()) return previous_.get();
  for (size_t i = 0; i < next_count_; ++i) {
    if (next_[i].end->undecided()) return next_[i].end.get();
  }
  return nullptr;
}

bool DeviceLinks::Tick(Instant now) {
  bool previous_stands = false;
  while (DeviceLinkEnd* const end = FirstUndecided()) {
    const bool stands = end->Tick(now, options_.form_patience);
    previous_stands |= stands && end == previous_.get();
    if (end->undecided()) break;
  }
  return previous_stands;
}

Instant DeviceLinks::next_wake(Instant now) const {
  const DeviceLinkEnd* const end = FirstUndecided();
  return end == nullptr || end->waits_for_peer() ? kInstantNever : now + kFormLookInterval;
}

absl::StatusOr<std::byte*> DeviceLinks::AcquireSlot() {
  if (next_count_ == 0) return nullptr;
  const auto slots = static_cast<int64_t>(memory_.out.size());
  for (size_t i = 0; i < next_count_; ++i) {
    DeviceLinkEnd& end = *next_[i].end;
    if (!end.stands() || !next_[i].up) return nullptr;
    const absl::StatusOr<int64_t> done = end.link()->Done();
    if (!done.ok()) return Blame(done.status(), end);
    if (*done + slots <= sent_) return nullptr;
  }
  return memory_.out[sent_ % slots].data();
}

absl::Status DeviceLinks::Send(int64_t bytes) {
  const std::span<std::byte> slot = memory_.out[sent_ % static_cast<int64_t>(memory_.out.size())];
  CHECK(bytes <= static_cast<int64_t>(slot.size()));
  ++sent_;
  for (size_t i = 0; i < next_count_; ++i) {
    DeviceLinkEnd& end = *next_[i].end;
    absl::Status sent = end.link()->Send(slot.data(), bytes);
    if (!sent.ok()) return Blame(std::move(sent), end);
  }
  return absl::OkStatus();
}

absl::Status DeviceLinks::Expect(int64_t bytes) {
  if (!has_previous_ || !previous_->stands()) {
    return absl::FailedPreconditionError(
        "rows are announced from device to device, but no device link stands");
  }
  CHECK(bytes <= static_cast<int64_t>(memory_.in[0].size()));
  expected_.push_back(bytes);
  return Receive();
}

absl::Status DeviceLinks::Receive() {
  const auto slots = static_cast<int64_t>(memory_.in.size());
  while (!expected_.empty() && receiving_ - released_ < slots) {
    absl::Status queued =
        previous_->link()->Receive(memory_.in[receiving_ % slots].data(), expected_.front());
    if (!queued.ok()) return Blame(std::move(queued), *previous_);
    expected_.pop_front();
    ++receiving_;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> DeviceLinks::Await() {
  TUTTI_RETURN_IF_ERROR(Receive());
  CHECK(receiving_ > released_) << "no rows are expected";
  const Instant begin = clock_->Now();
  Instant look = begin + kDeviceLookInterval;
  while (true) {
    const absl::StatusOr<int64_t> done = previous_->link()->Done();
    if (!done.ok()) return Blame(done.status(), *previous_);
    if (*done > released_) break;
    std::this_thread::yield();
    const Instant now = clock_->Now();
    if (now < look) continue;
    TUTTI_RETURN_IF_ERROR(wait_(now));
    look = now + kDeviceLookInterval;
    if (now < begin + options_.transfer_patience) continue;
    return Blame(absl::DeadlineExceededError(
                     absl::StrCat("rows that were sent have not come from GPU to GPU after ",
                                  Milliseconds(options_.transfer_patience), " ms")),
                 *previous_);
  }
  return memory_.in[released_ % static_cast<int64_t>(memory_.in.size())].data();
}

void DeviceLinks::Release() { ++released_; }

// A peer that is gone shows here first; the coordinator knows why it is gone.
absl::Status DeviceLinks::Blame(absl::Status status, const DeviceLinkEnd& end) {
  const Instant give_up = clock_->Now() + options_.grace;
  while (clock_->Now() < give_up) TUTTI_RETURN_IF_ERROR(wait_(give_up));
  distrusted_ = true;
  spdlog::warn("rows pass through the host from now on, until this worker is started again");
  return Annotate(
      status, absl::StrCat("device link ", &end == previous_.get() ? "from " : "to ", end.peer()));
}

}  // namespace tutti::worker
