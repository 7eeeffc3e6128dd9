// An ordered, message-framed, bidirectional pipe to one peer. No gRPC in sight.
//
// Frames arrive complete and in order until OnClosed, after which nothing arrives. A link is never
// repaired: a new connection is a new link. The meaning of frames, hello and welcome included, is
// the business of the two ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/peer_messages.h"

namespace tutti::transport {

// Bytes that travel beside a frame without being copied: one or more chunks kept alive by `owner`.
struct Payload {
  std::vector<std::span<const std::byte>> chunks;
  std::shared_ptr<const void> owner;

  int64_t size() const {
    int64_t total = 0;
    for (const auto& chunk : chunks) total += static_cast<int64_t>(chunk.size());
    return total;
  }
};

class ReceiveBudget;

// Receives the frames of a link. Calls come one at a time, on a transport thread; they must not
// block.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  // `frame.payload` is empty; its bytes are in `payload`, valid as long as payload.owner is held.
  virtual void OnFrame(v1::Frame frame, Payload payload) = 0;
  // The last call. OK: the peer closed in good order. Otherwise the reason, the peer's own words
  // included.
  virtual void OnClosed(absl::Status reason) = 0;
  // The budget from which this handler counts what it has queued, the same for the whole life of
  // the link, or none: then every frame is delivered as it comes. It may be none until the peer has
  // proved who it is.
  virtual std::shared_ptr<ReceiveBudget> budget() { return nullptr; }
};

// Counts of a link since it was made.  Bytes are those of the encoded frames, payload included.
struct LinkStats {
  int64_t bytes_out = 0;
  int64_t frames_out = 0;
  int64_t bytes_in = 0;
  int64_t frames_in = 0;
};

// One end of a pipe. Thread: any, for every method.
class Link {
 public:
  // Closes the link. OnClosed of this end may still be running or come later; it does not touch the
  // Link.
  virtual ~Link() = default;

  // Queues one frame. Never blocks. INVALID_ARGUMENT when CheckFrame refuses it, RESOURCE_EXHAUSTED
  // when more than the link's limit of bytes is queued, which is a bug in flow control and not a
  // condition to wait out; UNAVAILABLE after the link closed. The payload's bytes must not change
  // until payload.owner is let go.
  virtual absl::Status Send(v1::Frame frame, Payload payload = {}) = 0;

  // Sends the queued frames, then closes. The peer's OnClosed gets `reason` (code and message).
  virtual void Close(absl::Status reason) = 0;

  virtual LinkStats stats() const = 0;
  // The peer as the transport knows it, for logs: never used for decisions.
  virtual std::string peer() const = 0;
};

// The place where a link is to lead, and to whom.
struct DialTarget {
  DialTarget(const char* dialled) : address(dialled) {}
  DialTarget(std::string dialled, std::string who = "", std::string named = "")
      : address(std::move(dialled)), listener(std::move(who)), server_name(std::move(named)) {}

  // The address from the operator's configuration, or announced by a worker and allowed by that
  // configuration (worker/links/peer_finder.h).
  std::string address;
  // The identity, as a URI (roles.h), that the listener must prove; empty: nobody in particular.
  std::string listener;
  // The name that its certificate must carry beside it; empty: the host of `address`.
  std::string server_name;
};

// Makes links. The link and its handler exist at once; a connection that fails is an OnClosed with
// UNAVAILABLE.
class Dialer {
 public:
  virtual ~Dialer() = default;
  virtual std::unique_ptr<Link> Dial(const DialTarget& target,
                                     std::unique_ptr<LinkHandler> handler) = 0;
};

// Called on a transport thread for each new connection; returns the receiver of its frames.
using AcceptCallback = std::function<std::unique_ptr<LinkHandler>(std::unique_ptr<Link> link)>;

}  // namespace tutti::transport
