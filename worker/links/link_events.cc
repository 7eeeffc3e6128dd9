#include "worker/links/link_events.h"

namespace tutti::worker {

bool Deliver(const LinkTable& links, bool in_step, Instant now, WorkerEvent* event) {
  auto* const came = std::get_if<LinkFrame>(event);
  auto* const closed = std::get_if<LinkClosed>(event);
  if (came == nullptr && closed == nullptr) return false;
  const LinkId link = came != nullptr ? came->link : closed->link;
  LinkOwner* const owner = links.Find(link);
  if (owner == nullptr || (in_step && !owner->serves_steps())) return false;
  if (came != nullptr) {
    owner->OnFrame(link, std::move(came->frame), std::move(came->payload), now);
  } else {
    owner->OnClosed(link, closed->reason, now);
  }
  return true;
}

}  // namespace tutti::worker
