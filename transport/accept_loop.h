// Accepts the connections of one port, on a thread of its own, and hands over those that have begun
// to speak: gRPC 1.51's own listener never accepts again once descriptors have run out
// (CVE-2023-4785), and bounds nothing.
//
//   * Connections are bounded in all and per account (connection_table.h). Those beyond are closed
//     at once.
//   * A connection that has not sent its first bytes is ours and cheap. It makes way, the oldest
//     first, when room is needed, and is closed after kHandshakeTimeout.
//   * When descriptors run out nevertheless, one kept in reserve is used to accept and close, so
//     that nobody waits in the backlog for a process that cannot answer.
//   * Accounts that have flooded the port (connection_watch.h) are slowed for a while: their new
//     connections are handed over one by one, with pauses.
//   * A call of the process to itself (self_probe.h) passes all bounds.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/connection_table.h"
#include "transport/listening_sockets.h"

namespace tutti::transport {

class AcceptLoop {
 public:
  struct Options {
    std::string address;
    ConnectionBounds bounds;
    bool expects_tls = false;  // clients speak TLS; otherwise HTTP/2 at once
  };
  struct Counts {
    int64_t handed_over = 0;
    int64_t refused = 0;  // beyond a bound, or for want of a descriptor
    int64_t evicted = 0;  // silent ones that made way
  };
  // Takes the descriptor.  Thread: the loop's; must not block.
  using HandOver = std::function<void(int fd, bool is_own_call)>;

  // Binds; connections wait until Start. Errors of OpenListeningSockets.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Listen(Options options);
  ~AcceptLoop();

  const std::string& address() const { return address_; }
  void Start(HandOver hand_over);
  // Closes the port and the connections that were not handed over. Idempotent.
  void Stop();
  // Ends those that were, whoever has them, but for calls of this process to itself. None comes
  // after it.  REQUIRES: stopped.
  void EndConnections() { table_.EndAll(); }

  // Thread: any, for all below.
  Counts counts() const;
  // The next connection from exactly here is this process's own.
  absl::StatusOr<OwnCall> PrepareCall();
  // Closes the port and opens it again, on the loop's thread.
  void Reopen();
  // Slows down for kSlowedFor from now on.
  void SlowDown(const std::string& account);

 private:
  struct Silent {
    Descriptor fd;
    std::string account;
    bool is_own_call = false;
    bool waits = false;  // has spoken, and its account is slowed
    Instant deadline;
  };
  struct Slowed {
    Instant until;
    Instant next{};  // the next connection may be handed over then
  };
  using SilentList = std::list<Silent>;

  AcceptLoop(Options options, ListeningSockets opened);
  void Watch(int fd, uint32_t events);
  void Run();
  // A socket of this port, which only this thread and Stop replace.
  bool IsListening(int fd) const;
  void AcceptFrom(int listening_socket);
  void Shed(int listening_socket);
  void Take(Descriptor fd);
  bool MakeRoom(const std::string& account);
  bool IsOwnCall(int fd);
  void LookAt(int fd);
  // Whether a connection of an account must wait; otherwise it is counted as handed over.
  bool MustWait(const std::string& account, Instant now);
  void Give(SilentList::iterator silent);
  void HandOverWaiting(Instant now);
  void Drop(SilentList::iterator silent);
  void CloseExpired(Instant now);
  void Refuse(const std::string& account);
  void ReopenNow();
  void Wake();
  int MillisecondsToNextDeadline() const;

  const Options options_;
  std::string address_;
  const SystemClock clock_;
  Descriptor poller_;
  Descriptor waker_;
  Descriptor reserve_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> reopen_{false};
  std::atomic<int64_t> handed_over_{0}, refused_{0}, evicted_{0};

  // Owned by the loop's thread while it runs.
  HandOver hand_over_;
  ConnectionTable table_;
  SilentList silent_;  // by age
  std::map<int, SilentList::iterator> silent_by_fd_;
  std::list<int> waiting_;  // in their order; some may be gone
  Instant next_sweep_{};
  Instant next_log_{};
  int64_t refused_logged_ = 0;

  mutable Mutex mutex_;
  std::vector<Descriptor> sockets_ ABSL_GUARDED_BY(mutex_);
  std::optional<SocketAddress> own_call_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Slowed> slowed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::transport
