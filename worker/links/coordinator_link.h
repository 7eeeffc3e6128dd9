// The control link: dials the coordinator until it answers with welcome, again whenever the link is
// gone.
//
// Thread: the executor's.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "transport/link.h"
#include "worker/links/backoff.h"
#include "worker/links/link_events.h"
#include "worker/watcher.h"

namespace tutti::worker {

class CoordinatorLink {
 public:
  // REQUIRES: `context` and `watcher`, which beats over the link while it is joined, outlive this.
  CoordinatorLink(LinkContext* context, std::string address, Watcher* watcher);

  // Dials when it is time to; gives up on a link that does not say welcome.
  void Tick(Instant now);
  // When Tick has something to do next.
  Instant next_wake() const;

  bool joined() const { return joined_; }
  // For how long the coordinator tolerates silence.
  Duration lease() const { return lease_; }
  bool Is(LinkId id) const { return link_ != nullptr && id == id_; }

  // Handles the answer to hello. False: the frame is for the stage worker.  REQUIRES: Is(its link)
  bool HandleHandshake(const v1::Frame& frame, Instant now);
  // REQUIRES: Is(its link). Returns whether the link had been joined.
  bool OnClosed(const absl::Status& reason, Instant now);

  // Dropped when not joined: an epoch that the frame could belong to is over then.
  void Send(v1::Frame frame);
  void Close(const absl::Status& reason);

 private:
  void Retry(const absl::Status& reason, Instant now);

  LinkContext* const context_;
  const std::string address_;
  Watcher* const watcher_;
  Backoff backoff_;

  std::shared_ptr<transport::Link> link_;  // the watcher holds it too
  LinkId id_;
  bool joined_ = false;
  Duration lease_;
  Instant next_dial_{};         // when there is no link
  Instant welcome_deadline_{};  // when there is one that is not joined
  Instant next_log_{};
};

}  // namespace tutti::worker
