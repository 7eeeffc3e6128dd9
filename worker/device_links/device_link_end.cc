#include "worker/device_links/device_link_end.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace tutti::worker {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

DeviceLinkEnd::DeviceLinkEnd(std::unique_ptr<kernels::DeviceLink> link, Side side, std::string own)
    : link_(std::move(link)), side_(side), own_(std::move(own)) {}

DeviceLinkEnd::~DeviceLinkEnd() { End(); }

void DeviceLinkEnd::Begin(std::string peer, kernels::DeviceExchangeScope scope) {
  End();
  peer_ = std::move(peer);
  scope_ = scope;
  state_ = State::kWaiting;
  if (side_ == Side::kReceiver) return;
  description_.resize(static_cast<size_t>(link_->membership()->description_bytes()));
  const absl::Status able = link_->membership()->Describe(
      scope, /*founder=*/false, std::as_writable_bytes(std::span(description_)));
  if (able.ok()) return;
  GiveUp(std::string(able.message()));
  description_.clear();
}

void DeviceLinkEnd::End() {
  if (state_ == State::kForming || state_ == State::kStands) link_->membership()->Leave();
  state_ = State::kNone;
  description_.clear();
}

void DeviceLinkEnd::GiveUp(const std::string& why) {
  if (state_ == State::kForming || state_ == State::kStands) link_->membership()->Leave();
  state_ = State::kNone;
  spdlog::info("rows {} {} pass through the host: {}", side_ == Side::kSender ? "to" : "from",
               peer_, why);
}

std::string DeviceLinkEnd::Judge(const std::string& receiver, const std::string& sender) {
  both_ = receiver + sender;
  const bool receives = side_ == Side::kReceiver;
  const std::string names[] = {receives ? own_ : peer_, receives ? peer_ : own_};
  return link_->membership()->WhyNot(Bytes(both_), names);
}

std::string DeviceLinkEnd::Answer(const std::string& description) {
  if (state_ == State::kForming || state_ == State::kStands) link_->membership()->Leave();
  if (state_ == State::kNone) return "";
  state_ = State::kWaiting;
  if (description.empty()) {
    GiveUp(absl::StrCat(peer_,
                        " offers no device link: it has no NCCL it can use (its log says why), ",
                        "or was started with --device-exchange off"));
    return "";
  }
  kernels::DeviceMembership& membership = *link_->membership();
  std::string own(static_cast<size_t>(membership.description_bytes()), '\0');
  // A group is founded only for a peer that can join it.
  for (const bool founder : {false, true}) {
    const absl::Status able =
        membership.Describe(scope_, founder, std::as_writable_bytes(std::span(own)));
    std::string why(able.message());
    if (able.ok()) why = Judge(own, description);
    if (why.empty()) continue;
    GiveUp(why);
    return "";
  }
  state_ = State::kAgreed;
  return own;
}

void DeviceLinkEnd::HandleAnswer(const std::string& answer) {
  if (state_ != State::kWaiting) return;
  if (answer.empty())
    return GiveUp(
        absl::StrCat(peer_,
                     " takes none from GPU to GPU: its log says why, or it was started with "
                     "--device-exchange off"));
  if (const std::string why = Judge(answer, description_); !why.empty()) return GiveUp(why);
  state_ = State::kAgreed;
}

bool DeviceLinkEnd::Tick(Instant now, Duration patience) {
  kernels::DeviceMembership& membership = *link_->membership();
  if (state_ == State::kAgreed) {
    const absl::Status begun = membership.Form(Bytes(both_), 2, side_ == Side::kReceiver ? 0 : 1);
    if (!begun.ok()) {
      GiveUp(std::string(begun.message()));
      return false;
    }
    state_ = State::kForming;
    began_ = now;
  }
  if (state_ != State::kForming) return false;
  const absl::StatusOr<bool> formed = membership.Formed();
  if (!formed.ok()) {
    GiveUp(std::string(formed.status().message()));
  } else if (*formed) {
    state_ = State::kStands;
    spdlog::info("rows {} {} pass from GPU to GPU, linked in {:.1f} s",
                 side_ == Side::kSender ? "to" : "from", peer_, Seconds(now - began_));
    return true;
  } else if (now >= began_ + patience) {
    GiveUp(absl::StrCat("the two devices have not found each other after ", Milliseconds(patience),
                        " ms"));
  }
  return false;
}

}  // namespace tutti::worker
