#include "gateway/service/loop_jobs.h"

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "door/door.h"
#include "gateway/api_error.h"

namespace tutti::gateway {
namespace {

// A job until it is over. Shared by the thread that runs it and the loop.
class Held {
 public:
  explicit Held(LoopJobs::Job job) : job_(std::move(job)) {}

  // Empty: nobody waits for it.
  LoopJobs::Job Take() {
    const MutexLock lock(&mutex_);
    return std::exchange(job_, nullptr);
  }
  // The caller has gone.
  void Drop() {
    LoopJobs::Job job;  // goes without the lock
    {
      const MutexLock lock(&mutex_);
      job = std::exchange(job_, nullptr);
      dropped_ = true;
    }
    cancel_.Cancel();
  }
  bool dropped() {
    const MutexLock lock(&mutex_);
    return dropped_;
  }
  client::CancelToken* cancel() { return &cancel_; }

 private:
  client::CancelToken cancel_;
  Mutex mutex_;
  LoopJobs::Job job_ ABSL_GUARDED_BY(mutex_);
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

void LoopJobs::Run(const Caller& caller, Lane lane, int64_t bytes, Job job) {
  const auto held = std::make_shared<Held>(std::move(job));
  caller.exchange->OnGone([held] { held->Drop(); });
  const bool taken =
      upstream_->Run(lane, caller.owner, bytes, [server = server_, caller, held]() mutable {
        Rest rest;
        const absl::Status done = door::WithinMemory([&] {
          if (const Job taken_job = held->Take()) rest = taken_job(held->cancel());
          return absl::OkStatus();
        });
        if (!done.ok()) {
          rest = [caller] { caller.ReplyError(Unavailable("there is no memory left")); };
        }
        if (rest == nullptr) return;
        server->Post([held, caller, rest = std::move(rest)] {
          if (held->dropped()) return;
          const absl::Status answered = door::WithinMemory([&] {
            rest();
            return absl::OkStatus();
          });
          if (!answered.ok()) caller.ReplyError(Unavailable("there is no memory left"));
        });
      });
  if (taken) return;
  held->Drop();
  caller.ReplyError(Unavailable("too many requests wait to be read"));
}

}  // namespace tutti::gateway
