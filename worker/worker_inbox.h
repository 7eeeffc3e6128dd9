// The events of a worker between its mailbox and the executor. They are handled in order between
// two steps. While a step waits for another worker, what comes over the links that serve steps is
// handled at once, and the rest put aside; while a shard is fetched everything is.
//
// Thread: the executor's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "worker/links/link_events.h"
#include "worker/position.h"

namespace tutti::worker {

class WorkerInbox {
 public:
  // Whether an event ends the epoch under way.
  using EndsEpoch = std::function<bool(const WorkerEvent& event)>;

  // REQUIRES: all outlive this.  `links`: whose links are whose.
  WorkerInbox(std::shared_ptr<WorkerMailbox> mailbox, const LinkTable* links, const Clock* clock,
              Position* position, EndsEpoch ends_epoch);

  // Hands over what was put aside, or else what comes until `deadline`, as long as `handle` says
  // true.
  void HandleNext(Instant deadline, const std::function<bool(WorkerEvent event)>& handle);
  // Gives an event of a link to the link's owner. False: it has none, or is no event of a link.
  bool Deliver(WorkerEvent* event) { return Deliver(/*in_step=*/false, event); }

  // Within a step: takes what comes, until `deadline` at the latest. ABORTED: the epoch is over.
  // RESOURCE_EXHAUSTED: too much was put aside while it waited for `waiting_for`.
  absl::Status WaitInStep(Instant deadline, const std::string& waiting_for);
  // Before a fetch: events that came together with its assignment count for LookInFetch.
  void BeginFetch();
  // Within a fetch, which may take hours. ABORTED: the epoch is over.
  absl::Status LookInFetch();

 private:
  // `in_step`: only to owners whose links serve steps.
  bool Deliver(bool in_step, WorkerEvent* event);
  void Take(Instant deadline, bool in_step);

  const std::shared_ptr<WorkerMailbox> mailbox_;
  const LinkTable* const links_;
  const Clock* const clock_;
  Position* const position_;
  const EndsEpoch ends_epoch_;

  std::vector<WorkerEvent> events_;    // in hand
  std::vector<WorkerEvent> deferred_;  // put aside
  std::vector<WorkerEvent> arrived_;   // kept for its memory
  bool is_over_ = false;               // the epoch, for something not handled yet
};

}  // namespace tutti::worker
