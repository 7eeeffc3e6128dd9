// The one thread of a worker that does anything: it reads the mailbox, runs steps, sends what comes
// of them, and beats.
//
// Beats come from this thread only, between units of work and while it is idle. A worker whose
// executor is stuck falls silent, and its lease at the coordinator expires.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "worker/coordinator_link.h"
#include "worker/link_events.h"
#include "worker/next_stage_link.h"
#include "worker/peer_table.h"
#include "worker/previous_stage_link.h"
#include "worker/stage_worker.h"

namespace tutti {

class Executor : private StageOutbox {
 public:
  struct Options {
    std::string coordinator;  // address
    v1::Hello hello;          // about this worker, `purpose` unset
    PeerTable peers;
    StageRunnerFactory factory;
  };

  // REQUIRES: dialer and clock outlive the executor.
  Executor(Options options, Dialer* dialer, const Clock* clock);
  ~Executor() override;  // stops

  // Hands accepted links to the executor. May be used before Start and after the executor is gone.
  // Thread: any.
  AcceptCallback acceptor() const;

  void Start();
  // Asks the thread to end after the step it is in. Thread: any.
  void RequestStop();
  // Waits until it has ended; false when that takes longer than `patience` (it loads or computes
  // still).
  bool WaitStopped(Duration patience);

 private:
  void Run();
  void Take(WorkerEvent event);
  void TakeFrame(LinkFrame event);
  void TakeClosed(const LinkClosed& event);
  void TakeCoordinatorFrame(v1::Frame frame);
  void AfterCoordinatorFrame();
  void LeaveCoordinator();
  void Tick();
  Instant NextWake() const;
  void BeatIfDue();
  void Fail(const absl::Status& status);

  void ToCoordinator(v1::Frame frame) override;
  void ToNextStage(v1::Frame frame, Payload payload) override;

  // Constant after construction.
  const Options options_;
  const Clock* const clock_;
  const std::shared_ptr<WorkerMailbox> mailbox_;
  const std::shared_ptr<std::atomic<uint64_t>> next_accepted_;

  // Owned by the executor thread.
  LinkContext context_;
  CoordinatorLink coordinator_;
  NextStageLink next_;
  PreviousStageLink previous_;
  StageWorker stage_;
  Epoch linked_epoch_;  // whose links next_ and previous_ hold
  Epoch failed_epoch_;  // the newest one that we reported as broken
  Instant next_beat_{};
  std::vector<WorkerEvent> events_;

  std::atomic<bool> stop_{false};
  std::promise<void> ended_;  // set by the executor thread
  const std::shared_future<void> has_ended_{ended_.get_future()};
  std::thread thread_;
};

// Resident memory of this process; 0 when the system does not say.
int64_t ResidentBytes();

}  // namespace tutti
