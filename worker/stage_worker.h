// One worker's part in a pipeline, without threads, sockets or clocks: frames in, frames out.
//
// It holds the one gate that compares epochs, pairs plans with activations (step_sequencer), keeps
// the worker's copy of the sequences (sequence_table), runs steps in order on a StageRunner and
// says what to send. The executor drives it in a real worker; the simulator drives many of them in
// one thread.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "transport/link.h"
#include "tutti/v1/peer.pb.h"
#include "worker/device_links/stage_row_channel.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

// Where a StageWorker's frames go.
class StageOutbox {
 public:
  virtual ~StageOutbox() = default;
  virtual void ToCoordinator(v1::Frame frame) = 0;
  // To the next stage of the epoch in frame.epoch. The link is made by the shell (or the simulator)
  // when a shard is assigned; frames sent before it is up are queued there in order.
  virtual void ToNextStage(v1::Frame frame, transport::Payload payload) = 0;
};

class StageWorker {
 public:
  // REQUIRES: all arguments outlive the worker. `clock` only measures (compute and wait times); it
  // decides nothing. `rows`: how rows pass from device to device; null: over the links only.
  StageWorker(StageRunnerFactory factory, StageOutbox* outbox, const Clock* clock,
              RowPort* rows = nullptr);
  ~StageWorker();

  // Takes a frame from the coordinator: assign_shard, step_plan or release. assign_shard loads the
  // shard before it returns (sending shard_progress and at the end shard_ready or failure). A plan
  // of another epoch than the current one is dropped and counted. A plan that contradicts itself or
  // our copy: see status().
  void OnCoordinatorFrame(v1::Frame frame);

  // Takes an activation chunk from the previous stage. Stale epochs are dropped and counted; sizes
  // and checksum are verified. An early one (the epoch is newer than ours) is kept, within limits,
  // until assign_shard names that epoch.
  void OnActivationFrame(v1::Frame frame, transport::Payload payload);

  // Runs the next step if its plan and its activation are here. False: nothing is ready.
  bool RunOneStep(const ProgressCallback& progress);

  // The control link closed: forgets epoch, sequences and queued frames, so that the next
  // coordinator may count epochs from 1 again. The loaded weights are kept and used again if the
  // next assign_shard describes the same shard.
  void OnCoordinatorLost();

  // Not OK once the worker found a contradiction it cannot go on with (it has sent `failure`); it
  // then waits for a new assign_shard or release.
  const absl::Status& status() const;

  Epoch epoch() const;                   // 0: no shard
  const v1::AssignShard& shard() const;  // of the current epoch
  // Of the shard that is loaded; none: none.
  StageRunner::LinkMemory link_memory() const;
  uint64_t stale_frames() const;
  uint64_t progress_count() const;  // grows with every step, layer and tensor loaded

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::worker
