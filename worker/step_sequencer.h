// Decides when a step may run: when its plan is here, all rows of its activation are here (after
// stage 0), and every step before it has been released. Steps leave in the order of the plans,
// which is the same on every stage.
//
// Pure: no thread, socket or clock; times are arguments and only measured.  Thread: the executor's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"
#include "worker/buffer_pool.h"

namespace tutti::worker {

struct ReadyStep {
  v1::StepPlan plan;
  std::shared_ptr<ActivationBuffer> activation;  // null where the stage takes no rows in the step
  bool on_device = false;  // they come on the device instead, and may not have arrived
  Duration wait{};         // from having the plan to having the activation
  std::vector<v1::NumericFault> faults;  // of the stages before
};

class StepSequencer {
 public:
  struct Options {
    bool takes_activations = false;  // false on stage 0
    int32_t stage = 0;
    int32_t num_stages = 1;
    int64_t activation_row_bytes = 0;
    int32_t max_batch_tokens = 0;
    int32_t max_steps_ahead = 0;  // plans, and activations, kept for later
  };

  explicit StepSequencer(const Options& options);

  // Plans come in order, steps counting from 1; the first may be a probe, which is step 0.
  // FAILED_PRECONDITION for another step number,
  // RESOURCE_EXHAUSTED when too many wait, INVALID_ARGUMENT for a rebuild that cannot be.
  absl::Status OnPlan(v1::StepPlan plan, Instant now);

  // Chunks come in order, without gaps or overlaps. Their bytes are copied, so the payload may be
  // let go; rows that come on the device are one chunk without bytes. Errors: INVALID_ARGUMENT for
  // sizes, FAILED_PRECONDITION for order, DATA_LOSS for a wrong checksum. After an error of any
  // method the sequencer must not be used again.
  absl::Status OnActivation(const v1::Activation& chunk, const transport::Payload& payload,
                            Instant now);

  // Releases the next step into *ready, or leaves it empty when none may run.
  // FAILED_PRECONDITION when the plan and the activation at the front contradict each other.
  absl::Status Next(std::optional<ReadyStep>* ready);

 private:
  struct WaitingPlan {
    v1::StepPlan plan;
    Instant arrived;
  };
  struct WaitingActivation {
    uint64_t step = 0;
    int32_t total_rows = 0;
    int32_t rows_here = 0;
    std::shared_ptr<ActivationBuffer> buffer;  // null: on the device
    Instant completed;
    std::vector<v1::NumericFault> faults;
  };

  absl::Status Begin(const v1::Activation& chunk);
  absl::Status Copy(const v1::Activation& chunk, const transport::Payload& payload);
  absl::Status CheckChunk(const v1::Activation& chunk, int64_t payload_bytes) const;

  const Options options_;
  BufferPool pool_;
  std::deque<WaitingPlan> plans_;
  std::deque<WaitingActivation> activations_;  // all complete but perhaps the last
  uint64_t next_plan_ = 0;                     // after a probe, or any other, no probe comes
  uint64_t least_activation_ = 0;              // all before have come, or are not needed any more
  uint64_t last_released_ = 0;
};

}  // namespace tutti::worker
