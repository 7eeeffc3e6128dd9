// Tokens that a sequence's sampling excludes from its next draw: those that end its output while it
// is too short, the last of a row of tokens that it must not have, and where it names the tokens
// that it may have, all others. Their logits become -Inf, after penalties and bias; so no filter
// and no greedy choice finds them.
//
// Each rank masks its own part of the vocabulary. Whether anything is masked depends on the
// sequence alone, so it is the same at every rank.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "model/partition.h"
#include "worker/sequence_table.h"

namespace tutti::worker {

// Whether tokens may be excluded from the next draw.
bool HasMask(const SequenceState& sequence);

class LogitMask {
 public:
  // `own`: the rank's part of the vocabulary.  REQUIRES: the backend outlives this
  LogitMask(kernels::Backend* backend, const model::Range& own) : backend_(backend), own_(own) {}

  // Writes -Inf to the excluded ones of the rank's logits.
  //
  //   logits  [1, own] f32, of the backend's device
  void Apply(const SequenceState& sequence, kernels::TensorView logits);

 private:
  void KeepAllowed(const v1::SequenceSampling& sampling, kernels::TensorView logits);
  // The excluded ones by id, in columns of the rank's logits.
  void ListExcluded(const SequenceState& sequence);

  kernels::Backend* const backend_;
  const model::Range own_;
  // Kept for their memory:
  std::vector<int32_t> ids_;
  std::vector<float> kept_;
  std::vector<float> row_;  // [own], -Inf between two calls
  std::vector<kernels::LogitAdjustment> masks_;
};

}  // namespace tutti::worker
