// The activation link from the previous stage: checks who dials us, and lets only the expected
// worker of the current epoch send activations.
//
// Thread: the executor's.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "worker/link_events.h"

namespace tutti {

class PreviousStageLink {
 public:
  explicit PreviousStageLink(const LinkContext* context) : context_(context) {}

  // From now on activations come from `worker_id` in `epoch`; empty: from nobody. Links of earlier
  // epochs are closed.
  void Begin(Epoch epoch, const std::string& worker_id);
  // No epoch: closes all links.
  void End(const absl::Status& reason);

  void OnAccepted(LinkAccepted accepted, Instant now);
  bool Is(LinkId id) const { return links_.contains(id); }
  // Takes a hello and answers it. True: the frame is an activation from the expected worker.
  // REQUIRES: Is(link)
  bool TakeFrame(LinkId link, const v1::Frame& frame);
  void OnClosed(LinkId link, const absl::Status& reason);

  // Closes links that say nothing.
  void Tick(Instant now);
  Instant next_wake() const;

 private:
  struct Accepted {
    std::unique_ptr<Link> end;
    Instant hello_deadline;  // kInstantNever: hello was here
    bool used = false;       // an activation came
  };

  absl::Status CheckHello(const v1::Frame& frame) const;
  void Refuse(LinkId link, const absl::Status& reason);

  const LinkContext* const context_;
  Epoch epoch_;
  std::string worker_id_;
  std::map<LinkId, Accepted> links_;
  LinkId current_;  // 0: none
};

}  // namespace tutti
