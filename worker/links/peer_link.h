// A link to another worker of an epoch: the next stage, the one before, or another rank of our own
// stage. One of the two has dialled it (dialled_link.h), the other has accepted it
// (accepted_links.h); once it is up that makes no difference.
//
// Thread: the executor's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "worker/links/link_table.h"

namespace tutti::worker {

class PeerLink : public LinkOwner {
 public:
  struct Events {
    // It is up, and this is the welcome that was said.
    std::function<void(const v1::Welcome& welcome)> on_up = [](const v1::Welcome&) {};
    std::function<void(v1::Frame frame, transport::Payload payload)> on_frame;
    // It was up and has broken.
    std::function<void(const absl::Status& reason, Instant now)> on_closed = [](const absl::Status&,
                                                                                Instant) {};
  };

  // Exchanges of ranks (LINK_PURPOSE_COLLECTIVE) go both ways, and steps wait for them; to the
  // dialer of an activation link comes, beside welcome, nothing but device_link_up.
  PeerLink(v1::LinkPurpose purpose, Epoch epoch, std::string worker_id, Events events)
      : purpose_(purpose),
        epoch_(epoch),
        worker_id_(std::move(worker_id)),
        events_(std::move(events)) {}

  v1::LinkPurpose purpose() const { return purpose_; }
  const std::string& worker_id() const { return worker_id_; }
  bool serves_steps() const override { return purpose_ == v1::LINK_PURPOSE_COLLECTIVE; }

  virtual bool is_up() const = 0;
  // Once up: whether exchanges go through the memory that the dialler has offered.
  bool shares_memory() const { return shares_memory_; }
  virtual void Send(v1::Frame frame, transport::Payload payload) = 0;

  // Errors: the epoch cannot go on without this link, and has waited long enough for the
  // coordinator to see why.
  virtual absl::Status Tick(Instant now) { return absl::OkStatus(); }
  // When Tick has something to do next.
  virtual Instant next_wake() const { return kInstantNever; }
  // The state of the link, for the coordinator, when it is another than last time.
  virtual std::optional<v1::LinkState> PopReport() { return std::nullopt; }

 protected:
  void Up(const v1::Welcome& welcome, bool shares_memory) {
    shares_memory_ = shares_memory;
    events_.on_up(welcome);
  }
  const Events& events() const { return events_; }
  Epoch epoch() const { return epoch_; }

 private:
  const v1::LinkPurpose purpose_;
  const Epoch epoch_;
  const std::string worker_id_;
  const Events events_;
  bool shares_memory_ = false;
};

}  // namespace tutti::worker
