#include "worker/early_activations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/epochs.h"
#include "transport/frame_rules.h"
#include "worker/limits.h"

namespace tutti::worker {

bool EarlyActivations::Keep(v1::Frame frame, transport::Payload payload) {
  const int64_t bytes = transport::EncodedFrameBytes(frame, payload.size());
  if (static_cast<int64_t>(kept_.size()) >= kEarlyActivationFramesMax ||
      bytes_ + bytes > kEarlyActivationBytesMax) {
    dropped_ = std::max(dropped_, Epoch(frame.epoch()));
    return false;
  }
  bytes_ += bytes;
  kept_.push_back({std::move(frame), std::move(payload)});
  return true;
}

std::deque<EarlyActivations::Kept> EarlyActivations::PopAll() {
  bytes_ = 0;
  return std::exchange(kept_, {});
}

absl::Status EarlyActivations::CheckComplete(Epoch epoch) const {
  if (dropped_ != epoch) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("activations for epoch ", EpochName(epoch), " came before its shard, more than ",
                   kEarlyActivationBytesMax, " bytes or ", kEarlyActivationFramesMax, " frames"));
}

void EarlyActivations::Clear() { *this = EarlyActivations(); }

}  // namespace tutti::worker
