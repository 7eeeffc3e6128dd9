// The latest ends of pipelines that streams outlived, and how long each part of going on took: for
// the status, and for a line of the log when the last of the sequences has a new token.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class RecoveryLog {
 public:
  // The pipeline ended with `sequences` running on it; nothing was heard of what was lost for
  // `unheard`. The recovery's number, never 0.
  uint64_t Begin(PipelineId pipeline, const std::string& cause, int32_t sequences, Duration unheard,
                 Instant now);

  // The next epoch of the pipeline comes this far. The first time after each end counts.
  enum class Milestone { kFormed, kLoaded, kServing };
  void OnMilestone(PipelineId pipeline, Milestone milestone, Instant now);
  // One of the sequences has a token again. A line for the log with the last of them.
  std::optional<std::string> OnSequence(uint64_t recovery, Instant now);
  // One of them ended before that. 0: of no recovery.
  void Forget(uint64_t recovery);

  // Sequences that have gone on.
  uint64_t recovered() const { return recovered_; }
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;

 private:
  struct Recovery {
    uint64_t number = 0;
    Instant began;
    int32_t missing = 0;  // sequences without a new token
    v1::Recovery told;
  };

  Recovery* Find(uint64_t number);

  std::deque<Recovery> recoveries_;  // the latest first; at most kRecoveriesTold
  uint64_t begun_ = 0;
  uint64_t recovered_ = 0;
};

}  // namespace tutti::coordinator
