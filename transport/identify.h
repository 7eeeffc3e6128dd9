// Both ends of a link prove that they know the cluster's secret, before anything else is said:
//
//   dialer              listener
//   nonce        -->
//                <--    nonce, proof
//   proof        -->
//   hello …
//
// Pure: frames in, frames out. A frame that is not the one due ends it with kNotIdentified, and the
// same text for every reason: a stranger learns nothing by it.
//
// Thread: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/cluster_secret.h"

namespace tutti::transport {

// UNAUTHENTICATED, with the one text that a stranger gets to see.
absl::Status NotIdentified();

class ListenerProof {
 public:
  // `name`: of the listener, as dialers expect it.
  ListenerProof(std::shared_ptr<const ClusterSecret> secret, std::string name)
      : secret_(std::move(secret)), name_(std::move(name)) {}

  // The answer to a frame; nothing once the dialer has proved itself, which `proved` then says.
  absl::StatusOr<std::optional<v1::Frame>> Handle(const v1::Frame& frame, int64_t payload_bytes);
  bool proved() const { return proved_; }

 private:
  const std::shared_ptr<const ClusterSecret> secret_;
  const std::string name_;
  std::string dialer_nonce_, nonce_;
  bool proved_ = false;
  bool failed_ = false;
};

class DialerProof {
 public:
  // `listener`: the name that the listener must prove.
  DialerProof(std::shared_ptr<const ClusterSecret> secret, std::string listener)
      : secret_(std::move(secret)), listener_(std::move(listener)), nonce_(RandomNonce()) {}

  // The first frame of the link.
  v1::Frame First() const;
  // The listener's answer: the last frame to send, after which the link is the caller's.
  absl::StatusOr<v1::Frame> Handle(const v1::Frame& frame, int64_t payload_bytes);
  bool proved() const { return proved_; }

 private:
  const std::shared_ptr<const ClusterSecret> secret_;
  const std::string listener_;
  const std::string nonce_;
  bool proved_ = false;
  bool failed_ = false;
};

}  // namespace tutti::transport
