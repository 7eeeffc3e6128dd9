// Judges from outside whether the executor goes on: what a beat says.
//
// Time counts against the executor while its position stands still and the work it is at has a
// limit; it counts in proportion to the share of the processors that the process got, for a worker
// that is kept waiting by others is not stuck. A process of which no thread could run waits for
// something else than a processor, and its time counts in full.
//
// Thread: one (the watcher's).
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "kernels/work_meter.h"
#include "proto/peer_messages.h"
#include "worker/position.h"

namespace tutti::worker {

// The figures that the system says about the processors and this process.
class ProcessorMeter {
 public:
  virtual ~ProcessorMeter() = default;
  // Processor time of all threads since the process began.
  virtual Duration time() const = 0;
  // Threads beside the caller's that run, could run, or wait for memory to come from disk.
  virtual int ready_threads() const = 0;
};

class SystemProcessorMeter : public ProcessorMeter {
 public:
  Duration time() const override;
  // 0 when the system does not say.
  int ready_threads() const override;
};

class ExecutorWatch {
 public:
  // REQUIRES: all outlive this. `work`: of the executor's backend; null: it has none.
  ExecutorWatch(const Position* position, const kernels::WorkMeter* work,
                const ProcessorMeter* processors);

  // The beat to send now, without the memory of the process.  REQUIRES: no earlier than the last
  v1::Beat Look(Instant now);

 private:
  double ShareSinceLastLook(Duration since, Duration processor_time) const;

  const Position* const position_;
  const kernels::WorkMeter* const work_;
  const ProcessorMeter* const processors_;

  Instant looked_at_{};
  Duration processor_time_{};  // at the last look
  uint64_t progress_ = 0;
  uint64_t turns_ = 0;
  bool limited_ = false;     // the work of the last look
  Instant unmoved_since_{};  // or since the work has, or has no, limit
  Duration counted_{};       // of the time since
};

}  // namespace tutti::worker
