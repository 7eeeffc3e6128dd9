// A weights link as the worker sees it: questions go out, answers come back in their order.
//
// Thread: one, which may wait.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"
#include "transport/receive_budget.h"

namespace tutti::worker {

class WeightsLink {
 public:
  struct Answer {
    v1::Frame frame;
    transport::Payload payload;
    transport::ReceiveBudget::Unread unread;  // until it is let go of
  };

  // Dials and says hello, whose purpose is set here. A failure is the next answer.
  WeightsLink(transport::Dialer* dialer, const std::string& address, v1::Hello hello);

  // Sends a question. A link that has closed says so in place of an answer.
  void Ask(v1::Frame question);

  // The next answer, after the welcome, which is taken here; nothing: none by then. An error: the
  // link has closed, and that is why.
  absl::StatusOr<std::optional<Answer>> Next(Instant deadline);

 private:
  struct Closed {
    absl::Status reason;
  };
  using Event = std::variant<Answer, Closed>;
  class Receiver;

  const std::shared_ptr<Mailbox<Event>> mailbox_;
  std::vector<Event> events_;  // drained, and not taken yet
  size_t taken_ = 0;
  bool welcome_ = false;
  std::unique_ptr<transport::Link> link_;
};

}  // namespace tutti::worker
