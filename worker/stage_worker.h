// One worker's part in a pipeline, without threads, sockets or clocks: frames in, frames out.
//
// It holds the one gate that compares epochs, pairs plans with activations (step_sequencer), keeps
// the worker's copy of the sequences (sequence_table), runs steps in order on a StageRunner and
// hands out frames to send. The executor drives it in a real worker; the simulator drives many of
// them in one thread.
//
// Its functions are in two files, because rows have ways of their own in and out, and go on with
// the draft model: stage_worker_rows.cc.
//
// Thread: the executor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"
#include "worker/batch.h"
#include "worker/buffer_pool.h"
#include "worker/device_links/stage_row_channel.h"
#include "worker/drafter.h"
#include "worker/early_activations.h"
#include "worker/kept_rows.h"
#include "worker/sampling/grammar_pool.h"
#include "worker/sequence_table.h"
#include "worker/stage_part.h"
#include "worker/stage_runner.h"
#include "worker/step_sequencer.h"

namespace tutti::worker {

// The place where a StageWorker's frames go.
class StageOutbox {
 public:
  virtual ~StageOutbox() = default;
  virtual void ToCoordinator(v1::Frame frame) = 0;
  // Sends to the next stage of the epoch in frame.epoch. The link is made by the shell (or the
  // simulator) when a shard is assigned; frames sent before it is up are queued there in order.
  virtual void ToNextStage(v1::Frame frame, transport::Payload payload) = 0;
};

class StageWorker {
 public:
  // REQUIRES: all arguments outlive the worker. `clock` only measures (compute and wait times); it
  // decides nothing. `row_channel`: how rows pass from device to device; null: over the links only.
  StageWorker(StageRunnerFactory factory, StageOutbox* outbox, const Clock* clock,
              StageRowChannel* row_channel = nullptr,
              GrammarPool::Runs masks = GrammarPool::Runs::kInline);

  // Handles a frame from the coordinator: assign_shard, vocabulary, step_plan or release.
  // assign_shard loads the shard before it returns (sending shard_progress and at the end
  // shard_ready or failure). A plan of another epoch than the current one is dropped and counted. A
  // plan that contradicts itself or our copy: see status().
  void OnCoordinatorFrame(v1::Frame frame);

  // Handles an activation chunk from the previous stage. Stale epochs are dropped and counted;
  // sizes and checksum are verified. An early one (the epoch is newer than ours) is kept, within
  // limits, until assign_shard names that epoch.
  void OnActivationFrame(v1::Frame frame, transport::Payload payload);

  // Who is at work: the shard, or the draft model behind what it has sampled.
  enum class Works : uint8_t { kShard, kDraftModel };
  // Called with its work when a step has all it needs and begins to compute, and when each pass of
  // the draft model begins.
  using BeginCallback = std::function<void(Works who, const StageRunner::StepWork& work)>;
  // Runs the next step if its plan and its activation are here. False: nothing is ready.
  bool RunOneStep(const ProgressCallback& progress, const BeginCallback& begin = nullptr);

  // The control link closed: forgets epoch, sequences, K/V and queued frames, so that the next
  // coordinator may count epochs from 1 again, above its incarnation; one of a lower incarnation is
  // not obeyed. The loaded weights are kept and used again if the next assign_shard describes the
  // same shard.
  void OnCoordinatorLost();

  // Not OK once the worker found a contradiction it cannot go on with (it has sent `failure`); it
  // then waits for a new assign_shard or release.
  const absl::Status& status() const { return status_; }

  Epoch epoch() const { return epoch_; }                   // 0: no shard
  const v1::AssignShard& shard() const { return shard_; }  // of the current epoch
  // The memory of the shard that is loaded; none: none.
  StageRunner::LinkMemory link_memory() const;
  uint64_t stale_frames() const { return stale_frames_; }
  // Grows with every step, layer and tensor loaded.
  uint64_t progress_count() const { return progress_count_; }
  const GrammarPool& grammars() const { return grammars_; }

 private:
  // The places where a step's rows come from and go to.
  struct Rows {
    std::span<const std::byte> in;
    std::span<std::byte> out;
    bool in_on_device = false, out_on_device = false;
    std::shared_ptr<ActivationBuffer> out_buffer;  // null: on the device, or nowhere
  };
  // Where the time of a step went.
  struct StepTimes {
    Duration compute{}, wait{}, draft{};
  };

  void Assign(Epoch epoch, v1::AssignShard shard);
  bool GoOnWithKv();
  absl::Status Load(const v1::AssignShard& shard);
  void StartServing();
  void ForgetEpoch();
  void ForgetShard();
  void HandleActivation(const v1::Frame& frame, const transport::Payload& payload);
  void ReplayEarly();
  absl::Status RunStep(ReadyStep ready, const ProgressCallback& progress,
                       const BeginCallback& begin);
  absl::Status Apply(const v1::StepPlan& plan);
  absl::Status ForgetProbe(const v1::StepPlan& probe);
  // Waits for rows that come from device to device, and finds memory for those that leave.
  absl::StatusOr<Rows> PrepareRows(const ReadyStep& ready, const StagePart& part);
  absl::Status Compute(const StagePart& part, const Rows& rows, const ProgressCallback& progress,
                       const BeginCallback& begin);
  // The draft model goes on, where there is one; the time that it took.
  absl::StatusOr<Duration> Draft(const v1::StepPlan& plan, const ProgressCallback& progress,
                                 const BeginCallback& begin);
  ProgressCallback Counted(const ProgressCallback& progress);
  absl::Status PassOn(const StagePart& part, const Rows& rows);
  void CollectFaults(std::vector<v1::NumericFault> earlier);
  absl::Status SendOnDevice(int64_t bytes);
  void SendActivation(const std::shared_ptr<ActivationBuffer>& buffer);
  v1::Frame NewActivation(int32_t first_row, int32_t rows) const;
  void SendDone(uint64_t step, const StepTimes& times);
  void FillResult(uint64_t step, v1::StepResult* result);
  void Release() {
    ForgetEpoch();
    ForgetShard();
    kept_ = KeptRows();
  }
  void Stop(const absl::Status& status);
  // `lasting`: loading the same shard again would end so, too.
  void Fail(const absl::Status& status, bool lasting = false);
  v1::Frame NewFrame() const;
  static void Count(int64_t bytes, v1::LinkCounters* counters);
  bool is_first() const { return shard_.stage() == 0; }
  bool is_last() const { return shard_.stage() == shard_.num_stages() - 1; }
  // All ranks of the last stage have sampled the same; the first tells.
  bool tells() const { return is_last() && shard_.rank() == 0; }
  std::string PreviousName() const;

  const StageRunnerFactory factory_;
  StageOutbox* const outbox_;
  const Clock* const clock_;
  StageRowChannel* const row_channel_;
  GrammarPool grammars_;  // outlives the table's sequences

  // The newest epoch that this coordinator named; frames of it and before are not early.
  Epoch newest_epoch_;
  EarlyActivations early_;
  std::unique_ptr<StageRunner> runner_;
  std::optional<v1::AssignShard> loaded_;  // the shard of runner_
  std::optional<Drafter> drafter_;         // of runner_'s draft model; none: it has none
  // The epoch in which what the runner's K/V memory and kept_ hold was begun; none: they hold
  // nothing. Later epochs may have gone on with it.
  Epoch kv_epoch_;
  KeptRows kept_;
  uint64_t stale_frames_ = 0;
  uint64_t progress_count_ = 0;

  // The state of the current epoch:
  Epoch epoch_;  // 0: no shard
  v1::AssignShard shard_;
  absl::Status status_;
  std::optional<SequenceTable> table_;
  std::optional<StepSequencer> sequencer_;
  std::optional<BufferPool> output_pool_;
  v1::LinkCounters activation_in_;
  v1::LinkCounters activation_out_;
  double told_waiting_seconds_ = 0;  // of the ranks' exchanges, up to the last step

  // Kept from step to step for their memory:
  Batch batch_;
  std::vector<v1::SampledToken> sampled_;
  std::vector<v1::NumericFault> faults_;  // of this stage and those before
};

}  // namespace tutti::worker
