// The one thread of a worker that does its work: it reads the mailbox, runs steps and sends their
// results.
//
// A frame goes to the owner of its link (links/link_table.h): the coordinator's link, the link to a
// neighbour, or the door for those that have just dialled. What is more than a matter of that link
// comes back here, for the stage worker: a word of the coordinator, rows of the stage before.
//
// It says what it does and how far it has come in a Position, at which the watcher looks to beat
// (watcher.h). While a step waits for another rank of its stage, the mailbox is read for frames of
// ranks only; the rest is handled after the step.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "worker/fetch/shard_fetch.h"
#include "worker/links/coordinator_link.h"
#include "worker/links/link_events.h"
#include "worker/links/peer_links.h"
#include "worker/pace_model.h"
#include "worker/position.h"
#include "worker/stage_worker.h"
#include "worker/watcher.h"
#include "worker/worker_inbox.h"
#include "worker/worker_metrics.h"

namespace tutti::worker {

class Executor : private StageOutbox {
 public:
  struct Options {
    std::vector<std::string> coordinators;  // addresses; one leads, the others stand by
    v1::Hello hello;                        // about this worker, `purpose` unset
    PeerLinks::Options links;               // to other workers
    StageRunnerFactory factory;
    // Brings what a shard is made of into the factory's folder; null: it is there.
    ShardFetch* fetch = nullptr;
    // The meter of the factory's backend; null: it has none.
    const kernels::WorkMeter* work_meter = nullptr;
    const GpuMonitor* gpu = nullptr;  // of the factory's backend; null: it has none
  };

  // REQUIRES: dialer, clock, options.links.collective, options.fetch and options.gpu outlive the
  // executor.
  Executor(Options options, transport::Dialer* dialer, const Clock* clock);
  ~Executor() override;  // stops

  // Hands accepted links to the executor. May be used before Start and after the executor is gone.
  // Thread: any.
  transport::AcceptCallback acceptor() const { return acceptor_; }

  // The address that coordinators are told; otherwise nothing.  REQUIRES: before Start
  void Announce(Announcer announcer) { context_.announcer = std::move(announcer); }
  void Start();
  // Asks the thread to end when the coordinator lets this worker go, or is not there; it is told
  // that `grace` is left. Thread: any.
  void RequestLeave(Duration grace);
  // Asks the thread to end after the step it is in. Thread: any.
  void RequestStop();
  // Whether a shard is being loaded, for which nobody waits that this worker serves. Thread: any.
  bool loading() const { return loading_; }
  // Figures of its state and its work, for people who watch it. Thread: any.
  void WriteMetrics(metrics::Exposition* to) const;
  // Waits until it has ended; false when that takes longer than `patience` (it loads or computes
  // still).
  bool WaitStopped(Duration patience);

 private:
  void Run();
  void Handle(WorkerEvent event);
  bool EndsEpoch(const WorkerEvent& event) const;
  // One step, if one is ready.
  bool RunOneStep();
  absl::StatusOr<std::unique_ptr<StageRunner>> Load(const v1::AssignShard& shard,
                                                    const ShardProgressCallback& progress);
  absl::Status Fetch(const v1::AssignShard& shard);
  absl::Status WaitForRank(Instant deadline);
  absl::Status WaitForRows(Instant deadline);
  bool ReadyForSteps();
  void HandleCoordinatorFrame(v1::Frame frame);
  void FollowEpoch();
  void LeaveCoordinator();
  void SayLeaving();
  void Tick();
  void ReportLinks();
  Instant NextWake() const;
  void Fail(const absl::Status& status);

  void ToCoordinator(v1::Frame frame) override;
  void ToNextStage(v1::Frame frame, transport::Payload payload) override;

  // Constant after construction.
  const Options options_;
  const Clock* const clock_;
  const std::shared_ptr<WorkerMailbox> mailbox_;
  const transport::AcceptCallback acceptor_;

  // The executor writes, the watcher looks.
  Position position_;
  const SystemProcessorMeter processors_;
  ExecutorWatch watch_;
  Watcher watcher_;

  // Owned by the executor thread.
  PaceModel pace_;
  WorkerMetrics metrics_;  // others read
  bool waited_ = false;    // for another rank, in this step
  LinkContext context_;
  CoordinatorLink coordinator_;
  PeerLinks links_;
  StageWorker stage_;
  WorkerInbox inbox_;
  Epoch followed_epoch_;  // of the stage worker, to which the links are brought in line
  Epoch failed_epoch_;    // the newest one that we reported as broken

  std::optional<Duration> leaving_;  // it was told to leave, with so much time
  bool said_leaving_ = false;        // to the coordinator that it has joined

  std::atomic<bool> stop_{false};
  std::atomic<bool> loading_{false};
  std::promise<void> ended_;  // set by the executor thread
  const std::shared_future<void> has_ended_{ended_.get_future()};
  std::thread thread_;  // the owner's: set by Start, joined by the destructor
};

}  // namespace tutti::worker
