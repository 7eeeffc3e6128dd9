#include "transport/identify.h"

#include <utility>

#include "transport/limits.h"

namespace tutti::transport {
namespace {

// Whether the frame is an identify with a nonce and a proof of exactly these sizes, and nothing
// else.
bool IsIdentify(const v1::Frame& frame, int64_t payload_bytes, int64_t nonce_bytes,
                int64_t proof_bytes) {
  return frame.has_identify() && payload_bytes == 0 && frame.epoch() == 0 &&
         static_cast<int64_t>(frame.ByteSizeLong()) <= kIdentifyFrameBytesMax &&
         static_cast<int64_t>(frame.identify().nonce().size()) == nonce_bytes &&
         static_cast<int64_t>(frame.identify().proof().size()) == proof_bytes;
}

}  // namespace

absl::Status NotIdentified() {
  return absl::UnauthenticatedError(
      "no proof of the cluster's secret; all processes of a cluster need the same "
      "--cluster-secret-file");
}

absl::StatusOr<std::optional<v1::Frame>> ListenerProof::Handle(const v1::Frame& frame,
                                                               int64_t payload_bytes) {
  const bool is_first = dialer_nonce_.empty();
  if (proved_ || std::exchange(failed_, true)) return NotIdentified();
  if (!IsIdentify(frame, payload_bytes, is_first ? kNonceBytes : 0, is_first ? 0 : kProofBytes)) {
    return NotIdentified();
  }
  if (is_first) {
    dialer_nonce_ = frame.identify().nonce();
    nonce_ = RandomNonce();
    v1::Frame answer;
    answer.mutable_identify()->set_nonce(nonce_);
    answer.mutable_identify()->set_proof(
        secret_->Proof(LinkEnd::kListener, name_, dialer_nonce_, nonce_));
    failed_ = false;
    return std::optional<v1::Frame>(std::move(answer));
  }
  const std::string due = secret_->Proof(LinkEnd::kDialer, name_, dialer_nonce_, nonce_);
  if (!EqualProofs(frame.identify().proof(), due)) return NotIdentified();
  failed_ = false;
  proved_ = true;
  return std::optional<v1::Frame>();
}

v1::Frame DialerProof::First() const {
  v1::Frame frame;
  frame.mutable_identify()->set_nonce(nonce_);
  return frame;
}

absl::StatusOr<v1::Frame> DialerProof::Handle(const v1::Frame& frame, int64_t payload_bytes) {
  if (proved_ || std::exchange(failed_, true)) return NotIdentified();
  if (!IsIdentify(frame, payload_bytes, kNonceBytes, kProofBytes)) return NotIdentified();
  const std::string& theirs = frame.identify().nonce();
  const std::string due = secret_->Proof(LinkEnd::kListener, listener_, nonce_, theirs);
  if (!EqualProofs(frame.identify().proof(), due)) {
    return absl::UnauthenticatedError(
        "who answers there has not proved that it is the one to be dialled: another cluster's "
        "secret (--cluster-secret-file), or another name");
  }
  failed_ = false;
  proved_ = true;
  v1::Frame last;
  last.mutable_identify()->set_proof(secret_->Proof(LinkEnd::kDialer, listener_, nonce_, theirs));
  return last;
}

}  // namespace tutti::transport
