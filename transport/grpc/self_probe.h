// Calls a port of this process, over its socket, as a client would: the proof that it serves.
//
// The call goes through the kernel's backlog, our accept loop, gRPC's threads and its dispatch, and
// asks for a method that does not exist: UNIMPLEMENTED, or any other status that a server gives, is
// life. It is never refused by a bound and needs no certificate (accept_loop.h).
//
// A port that is silent for kProbeMissesMax calls is opened again; if it stays so for as many more
// the process is told to end, and a supervisor that only looks at exits starts another.
//
// Thread: one of its own.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/status.h"
#include "transport/accept_loop.h"
#include "transport/limits.h"

namespace tutti::transport {

class SelfProbe {
 public:
  struct Options {
    std::chrono::milliseconds interval = kProbeInterval;
    std::chrono::milliseconds deadline = kProbeDeadline;
    int misses = kProbeMissesMax;
    // Called once, on the probe's thread. The default ends the process with a line of log.
    std::function<void(const std::string& address)> on_deaf;
  };

  // REQUIRES: `loop` outlives this.
  SelfProbe(AcceptLoop* loop, Options options);
  ~SelfProbe();

  // One call. Errors: no answer came in time, or no connection could be made.  Thread: any, one at
  // a time.
  absl::Status CallOnce();

 private:
  void Run();
  // False: it is time to end.
  bool Sleep();
  bool IsStopping();
  absl::Status Connect(const OwnCall& call);

  AcceptLoop* const loop_;
  const Options options_;
  Mutex mutex_;
  ConditionVariable stopping_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::transport
