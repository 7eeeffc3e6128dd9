// Runs a load: begins chats when they are due, keeps all their calls under way, and reports the
// outcome of every turn.
//
// One thread owns everything except a turn under way: its call records it on gRPC's threads until
// it ends and comes back through the mailbox. No call has a thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/mailbox.h"
#include "client/client.h"
#include "client/load/arrivals.h"
#include "client/load/chats.h"
#include "client/load/turn.h"

namespace tutti::client {

struct DriverOptions {
  ArrivalOptions arrivals;
  int32_t turns = 1;                // of every chat, unless one fails
  Duration think_time{};            // from an answer's end to the next turn's beginning
  std::optional<Duration> timeout;  // of every request
  // A request that is refused for now is asked again when the service says, until so long after it
  // was due; zero: a refusal is a failure.
  Duration back_off{};
};

// The state of a load.
struct DriverProgress {
  Duration elapsed{};
  int64_t begun = 0;  // turns
  int64_t ended = 0;
  int64_t failed = 0;   // of those ended
  int64_t refused = 0;  // of those begun, that wait to be asked again
  int64_t tokens = 0;
  int64_t most_at_once = 0;  // of those begun and not ended
};

class LoadDriver {
 public:
  using MakeChatFunction = std::function<std::unique_ptr<Chat>(int64_t number)>;
  using OnTurn = std::function<void(Turn)>;
  using OnProgress = std::function<void(const DriverProgress&)>;

  // REQUIRES: `client` and `clock` outlive the driver.
  LoadDriver(DriverOptions options, Client* client, const Clock* clock, MakeChatFunction make_chat);
  ~LoadDriver();

  // Returns when every chat has ended, or after Interrupt when every call has; how long it took.
  // `on_turn` is called with every turn that was begun, `on_progress` every kLoadProgressMs.
  Duration Run(const OnTurn& on_turn, const OnProgress& on_progress);

  // No more turns begin, and those under way are cancelled.  Thread: any; once.
  void Interrupt();

  // After Run: how it went.
  const DriverProgress& progress() const { return progress_; }

 private:
  class Conversation;
  struct Ended {
    Conversation* conversation;
    absl::Status status;
  };
  struct Interrupted {};
  using Item = std::variant<Ended, Interrupted>;

  // When there is something to do by itself, since the start.
  std::optional<Duration> NextDue() const;
  void Wake(Duration at, Conversation* conversation);
  // Reports a turn that has ended, and lets its chat go on or end.
  void Finish(Conversation* conversation, absl::Status status, Duration now, const OnTurn& on_turn);
  void BeginDue(Duration now);
  // A turn begins.
  void Count();
  void Handle(Ended ended, Duration now, const OnTurn& on_turn);
  void Handle(Interrupted, Duration now, const OnTurn& on_turn);

  const DriverOptions options_;
  Client* const client_;
  const Clock* const clock_;
  const MakeChatFunction make_chat_;
  Arrivals arrivals_;
  Mailbox<Item> mailbox_;
  std::atomic<int64_t> tokens_{0};
  Instant start_;
  DriverProgress progress_;
  bool interrupted_ = false;
  std::unordered_map<Conversation*, std::unique_ptr<Conversation>> conversations_;
  // Those that think, or were refused, and when they go on: a heap, the soonest first.
  std::vector<std::pair<Duration, Conversation*>> waiting_;
};

}  // namespace tutti::client
