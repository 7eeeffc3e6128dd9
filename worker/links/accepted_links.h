// The links that other workers of this epoch dial: from the previous stage, with activations, and
// from lower ranks of our own stage, with exchanges. Checks each dialer, and accepts only the
// expected workers of the current epoch.
//
// Thread: the executor's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "worker/links/link_events.h"

namespace tutti::worker {

class AcceptedLinks {
 public:
  explicit AcceptedLinks(const LinkContext* context) : context_(context) {}

  struct Expected {
    v1::LinkPurpose purpose = v1::LINK_PURPOSE_ACTIVATION;
    std::string worker_id;
    // True: the shared memory that a hello offers is used from now on.
    std::function<bool(const std::string& shared_memory)> accept_memory;
    // The answer in welcome to the device that a hello describes; "" for none.
    std::function<std::string(const std::string& device_link)> answer_device;
  };

  // From now on these workers may dial, one link each; they are called by their index. Links of
  // earlier epochs are closed.
  void Begin(Epoch epoch, std::vector<Expected> expected);
  // No epoch: closes all links.
  void End(const absl::Status& reason);

  // Beyond kAcceptedLinksKept the oldest link that has said no hello makes way.
  void OnAccepted(LinkAccepted accepted, Instant now);
  bool Is(LinkId id) const { return links_.contains(id); }
  // The index of the expected worker at the other end, once its hello was accepted.
  std::optional<size_t> IndexOf(LinkId id) const;
  // Answers a hello. For any other frame, the index of the expected worker that sent it.
  // REQUIRES: Is(link)
  std::optional<size_t> HandleFrame(LinkId link, const v1::Frame& frame);
  // The index of the worker at the other end, if it was one of the expected.
  std::optional<size_t> OnClosed(LinkId link, const absl::Status& reason);

  bool is_up(size_t index) const { return current_[index] != LinkId(); }
  // A link that is gone says so in OnClosed.
  void Send(size_t index, v1::Frame frame, transport::Payload payload);

  // Closes links that say nothing.
  void Tick(Instant now);
  Instant next_wake() const;

 private:
  struct Accepted {
    std::unique_ptr<transport::Link> end;
    std::shared_ptr<transport::ReceiveBudget> budget;
    Instant hello_deadline;  // kInstantNever: hello was here
    bool used = false;       // a frame after hello came
  };

  // The index of the expected worker that says hello.
  absl::StatusOr<size_t> CheckHello(const v1::Frame& frame) const;
  void Refuse(LinkId link, const absl::Status& reason);
  void MakeRoom();

  const LinkContext* const context_;
  Epoch epoch_;
  std::vector<Expected> expected_;
  std::map<LinkId, Accepted> links_;
  std::vector<LinkId> current_;  // of each expected worker; 0: none
};

}  // namespace tutti::worker
