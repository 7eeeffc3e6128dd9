// The control link: dials the coordinators of the cluster until one answers with welcome, again
// whenever the link is gone.
//
// Of several coordinators one leads and the others stand by; all are dialled at once, and the first
// that says welcome is it. None is obeyed whose number is lower than one that was obeyed before.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/link.h"
#include "worker/links/backoff.h"
#include "worker/links/link_events.h"
#include "worker/watcher.h"

namespace tutti::worker {

class CoordinatorLink : private LinkOwner {
 public:
  struct Events {
    // A frame that is for the stage worker.
    std::function<void(v1::Frame frame)> on_frame;
    // The link that was joined is gone.
    std::function<void()> on_lost;
  };
  // REQUIRES: `context` and `watcher`, which beats over the link while it is joined, outlive this;
  // there is an address.
  CoordinatorLink(LinkContext* context, const std::vector<std::string>& addresses, Watcher* watcher,
                  Events events);

  // Dials when it is time to; gives up on a link that does not say welcome.
  void Tick(Instant now);
  // When Tick has something to do next.
  Instant next_wake() const;

  bool joined() const { return joined_ != nullptr; }
  // The time for which the coordinator tolerates silence.
  Duration lease() const { return lease_; }
  // Whether it is the joined link, or one that may become it.
  bool Owns(LinkId id) const { return context_->links.Find(id) == this; }

  // Dropped when not joined: an epoch that the frame could belong to is over then.
  void Send(v1::Frame frame);
  void Close(const absl::Status& reason);

 private:
  // One coordinator, and the link to it if there is one.
  struct Attempt {
    std::string address;
    Backoff backoff;
    std::string advertised;      // by the hello of `link`
    OwnedLink link = {};         // the watcher holds the joined one too
    Instant next_dial{};         // when there is no link
    Instant welcome_deadline{};  // when there is one that is not joined
    Instant next_log{};
  };

  void OnFrame(LinkId link, v1::Frame frame, transport::Payload payload, Instant now) override;
  void OnClosed(LinkId link, const absl::Status& reason, Instant now) override;
  // REQUIRES: Owns(id)
  Attempt* Find(LinkId id);
  void HandleHandshake(Attempt* attempt, const v1::Frame& frame, Instant now);
  void Dial(Attempt* attempt, Instant now);
  void Join(Attempt* attempt, const v1::Welcome& welcome);
  void Retry(Attempt* attempt, const absl::Status& reason, Instant now);

  LinkContext* const context_;
  Watcher* const watcher_;
  const Events events_;
  std::vector<Attempt> attempts_;  // constant in number
  Attempt* joined_ = nullptr;      // the others have no link then
  bool closed_ = false;
  Duration lease_;
};

}  // namespace tutti::worker
