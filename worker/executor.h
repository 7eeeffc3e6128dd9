// The one thread of a worker that does its work: it reads the mailbox, runs steps and sends their
// results.
//
// It says what it does and how far it has come in a Position, at which the watcher looks to beat
// (watcher.h). While a step waits for another rank of its stage, the mailbox is read for frames of
// ranks only; the rest is handled after the step.
//
// Its functions are in four files, because one thread does four things in turn: steps
// (executor.cc), links (executor_links.cc), loads (executor_loading.cc) and reports
// (executor_reports.cc).
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
#include "worker/device_links/device_group.h"
#include "worker/device_links/device_links.h"
#include "worker/fetch/shard_fetch.h"
#include "worker/links/accepted_links.h"
#include "worker/links/announcer.h"
#include "worker/links/coordinator_link.h"
#include "worker/links/dialled_link.h"
#include "worker/links/link_collective.h"
#include "worker/links/link_events.h"
#include "worker/links/peer_finder.h"
#include "worker/links/rank_links.h"
#include "worker/pace_model.h"
#include "worker/position.h"
#include "worker/stage_worker.h"
#include "worker/watcher.h"
#include "worker/worker_metrics.h"

namespace tutti::worker {

class Executor : private StageOutbox {
 public:
  struct Options {
    std::vector<std::string> coordinators;  // addresses; one leads, the others stand by
    v1::Hello hello;                        // about this worker, `purpose` unset
    PeerRules peers;                        // where others may be dialled
    StageRunnerFactory factory;
    LinkCollective* collective = nullptr;  // of the factory's runners
    DeviceGroup::Options devices;          // of the factory's backend
    DeviceLinks::Options device_links;     // of the factory's backend
    std::string memory_folder;             // where ranks of one machine meet; empty: nowhere
    // Brings what a shard is made of into the factory's folder; null: it is there.
    ShardFetch* fetch = nullptr;
    // The meter of the factory's backend; null: it has none.
    const kernels::WorkMeter* work_meter = nullptr;
    const GpuMonitor* gpu = nullptr;  // of the factory's backend; null: it has none
  };

  // REQUIRES: dialer, clock, options.collective, options.fetch and options.gpu outlive the
  // executor.
  Executor(Options options, transport::Dialer* dialer, const Clock* clock);
  ~Executor() override;  // stops

  // Hands accepted links to the executor. May be used before Start and after the executor is gone.
  // Thread: any.
  transport::AcceptCallback acceptor() const;

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
  void HandleFrame(LinkFrame event);
  void HandleNextStageFrame(size_t index, const v1::Frame& frame, Instant now);
  void HandleClosed(const LinkClosed& event);
  // False: the event is not one of a rank.
  bool HandleRankEvent(WorkerEvent* event);
  bool EndsEpoch(const WorkerEvent& event) const;
  // One step, if one is ready.
  bool RunOneStep();
  absl::StatusOr<std::unique_ptr<StageRunner>> Load(const v1::AssignShard& shard,
                                                    const ShardProgressCallback& progress);
  absl::Status Fetch(const v1::AssignShard& shard);
  absl::Status LookForEnd();
  absl::Status WaitForRank(Instant deadline);
  absl::Status WaitForRows(Instant deadline);
  absl::Status WaitWithinStep(Instant deadline);
  absl::Status BeginLinks(Epoch epoch);
  bool ReadyForSteps();
  void EndLinks(const absl::Status& reason);
  void HandleCoordinatorFrame(v1::Frame frame);
  void AfterCoordinatorFrame();
  void LeaveCoordinator();
  void SayLeaving();
  void Tick();
  void ReportLinks();
  void TickDeviceLinks(Instant now);
  Instant NextWake() const;
  void Fail(const absl::Status& status);

  void ToCoordinator(v1::Frame frame) override;
  void ToNextStage(v1::Frame frame, transport::Payload payload) override;

  // Constant after construction.
  const Options options_;
  const Clock* const clock_;
  const std::shared_ptr<WorkerMailbox> mailbox_;
  const std::shared_ptr<std::atomic<uint64_t>> next_accepted_;

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
  std::vector<std::unique_ptr<DialledLink>> next_;  // the ranks of the next stage that we feed
  AcceptedLinks accepted_;
  PeerFinder peers_;
  size_t previous_index_ = 0;  // of the worker that feeds us, among the accepted
  RankLinks ranks_;
  DeviceLinks device_links_;
  StageWorker stage_;
  DeviceGroup devices_;
  Epoch grouped_epoch_;  // whose devices have, or have not, formed a group
  Epoch linked_epoch_;   // whose links are held
  Epoch failed_epoch_;   // the newest one that we reported as broken
  std::vector<WorkerEvent> events_;
  std::vector<WorkerEvent> deferred_;        // came while a step waited for a rank
  std::vector<WorkerEvent> events_in_step_;  // kept for its memory
  bool fetch_over_ = false;                  // something came that ends the epoch of a fetch

  std::optional<Duration> leaving_;     // it was told to leave, with so much time
  bool said_leaving_ = false;           // to the coordinator that it has joined
  std::vector<v1::LinkState> reports_;  // kept for its memory

  std::atomic<bool> stop_{false};
  std::atomic<bool> loading_{false};
  std::promise<void> ended_;  // set by the executor thread
  const std::shared_future<void> has_ended_{ended_.get_future()};
  std::thread thread_;  // the owner's: set by Start, joined by the destructor
};

}  // namespace tutti::worker
