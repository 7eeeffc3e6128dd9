// The control link: dials the coordinators of the cluster until one answers with welcome, again
// whenever the link is gone.
//
// Of several coordinators one leads and the others stand by; all are dialled at once, and the first
// that says welcome is it. None is obeyed whose number is lower than one that was obeyed before.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/link.h"
#include "worker/links/backoff.h"
#include "worker/links/link_events.h"
#include "worker/watcher.h"

namespace tutti::worker {

class CoordinatorLink {
 public:
  // REQUIRES: `context` and `watcher`, which beats over the link while it is joined, outlive this;
  // there is an address.
  CoordinatorLink(LinkContext* context, const std::vector<std::string>& addresses,
                  Watcher* watcher);

  // Dials when it is time to; gives up on a link that does not say welcome.
  void Tick(Instant now);
  // When Tick has something to do next.
  Instant next_wake() const;

  bool joined() const { return joined_ != nullptr; }
  // The time for which the coordinator tolerates silence.
  Duration lease() const { return lease_; }
  // Whether it is the joined link, or one that may become it.
  bool Is(LinkId id) const;

  // Handles the answer to hello. False: the frame is for the stage worker.  REQUIRES: Is(id)
  bool HandleHandshake(LinkId id, const v1::Frame& frame, Instant now);
  // REQUIRES: Is(id). Returns whether the link had been joined.
  bool OnClosed(LinkId id, const absl::Status& reason, Instant now);

  // Dropped when not joined: an epoch that the frame could belong to is over then.
  void Send(v1::Frame frame);
  void Close(const absl::Status& reason);

 private:
  // One coordinator, and the link to it if there is one.
  struct Attempt {
    std::string address;
    Backoff backoff;
    std::string advertised;                           // by the hello of `link`
    std::shared_ptr<transport::Link> link = nullptr;  // the watcher holds the joined one too
    LinkId id{};
    Instant next_dial{};         // when there is no link
    Instant welcome_deadline{};  // when there is one that is not joined
    Instant next_log{};
  };

  Attempt* Find(LinkId id);
  void Dial(Attempt* attempt, Instant now);
  void Join(Attempt* attempt, const v1::Welcome& welcome);
  void Retry(Attempt* attempt, const absl::Status& reason, Instant now);

  LinkContext* const context_;
  Watcher* const watcher_;
  std::vector<Attempt> attempts_;  // constant in number
  Attempt* joined_ = nullptr;      // the others have no link then
  bool closed_ = false;
  Duration lease_;
};

}  // namespace tutti::worker
