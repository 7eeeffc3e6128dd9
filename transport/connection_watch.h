// Watches over the connections that gRPC has: gRPC 1.51 bounds neither a header block nor resets,
// and serves all ports of a process by a few threads, each of which stays with a connection for as
// long as that has bytes to read.
//
//   * A connection whose bytes become no requests is cut (connection_conduct.h): TCP only. A Unix
//     socket's other end is a process of this user, and the system does not count its bytes.
//   * Bytes of a trusted peer (TCP) or of anybody (Unix sockets) that lie unread in the system for
//     longer than a look are a stall of ours, which is reported.
//
// The descriptors are gRPC's: an inode tells whether a number is still the same socket, and
// whatever changes a socket is done through a descriptor of our own, looked at once more.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "transport/connection_conduct.h"
#include "transport/credit_book.h"
#include "transport/descriptor.h"

namespace tutti::transport {

class ConnectionWatch {
 public:
  // So much time up to now passed while bytes lay unread.  Thread: the watch's; must not block.
  using OnUnread = std::function<void(Duration)>;
  // A connection of this account (listening_sockets.h) was cut.  Thread and rule: as OnUnread.
  using OnCut = std::function<void(const std::string&)>;
  struct Options {
    std::string port;            // for the log
    CreditBook* book = nullptr;  // outlives the watch
    OnUnread on_unread;          // may be null
    OnCut on_cut;                // may be null
  };

  explicit ConnectionWatch(Options options);
  ~ConnectionWatch();

  void Start();
  // A connection that is about to be handed over.  Thread: any.
  void Add(int fd);
  // Thread: any.
  int64_t cut() const { return cut_; }

  // Looks at all of them, as its thread does.  Thread: its own; a test's, before Start.
  void Look(Instant now);

 private:
  struct Watched {
    int fd = -1;
    dev_t device = 0;
    ino_t inode = 0;
    bool is_tcp = false;
    std::string name;
    std::string account;
    std::shared_ptr<ConnectionCredit> credit;
    Conduct conduct;
    SocketState socket;  // at the last look
  };

  // An account of which a connection was cut.
  struct Slowed {
    Instant until{};
    int64_t lent = 0;     // to connections that are open
    int64_t missing = 0;  // of those that were cut, not paid off yet
  };

  void Run();
  static bool IsStill(const Watched& watched, int fd);
  static SocketState StateOf(const Watched& watched);
  // False: it was cut. `busy`: processor time since the last look.
  bool Judge(Watched* watched, const SocketState& socket, Instant now, Duration busy);
  void Forget(const Watched& watched);
  bool Cut(const Watched& watched);
  void Log(const Watched& watched, Instant now);

  const Options options_;
  const SystemClock clock_;
  std::atomic<int64_t> cut_{0};
  std::thread thread_;

  // Owned by the thread.
  std::vector<Watched> watched_;
  std::map<std::string, Slowed> slowed_;
  Instant looked_at_{};
  Duration busy_until_{};  // this process, at the last look
  Instant next_log_{};
  int64_t cut_logged_ = 0;

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Watched> added_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::transport
