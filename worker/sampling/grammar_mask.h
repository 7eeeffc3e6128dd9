// What grammars allow, of rows of logits: all others become -Inf in the logits themselves, before
// anything else looks at them. So log-probabilities are those among the tokens that may come.
//
// Each rank masks its own part of the vocabulary.  Thread: the executor's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/clock.h"
#include "kernels/backend.h"
#include "model/partition.h"
#include "worker/batch.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

class GrammarMask {
 public:
  // `own`: the rank's part of the vocabulary, which begins at a multiple of 32.  REQUIRES: the
  // backend outlives this
  GrammarMask(kernels::Backend* backend, const model::Range& own);

  // A step begins, of these rows: those of all Apply up to the next step may wait kLateMaskGrace
  // together, or kLateMaskPatience where none of them can be drawn when the first has to wait, and
  // kGuessedMaskGrace behind right guesses. However many they are, those who wait for nothing lose
  // no more.  REQUIRES: `rows` outlive the step
  void BeginStep(std::span<const SampleRow> rows);

  // Waits for the masks of the rows that have a grammar, as long as is left of the step's time. A
  // row whose output cannot go on loses its numbers, at every rank, and its answer has ended with
  // the reason.  REQUIRES: the rows are of the step that has begun
  //
  //   logits  [rows, own] f32, of the backend's device
  void Apply(kernels::TensorView logits, std::span<const SampleRow> rows,
             const ProgressCallback& progress);

  // Whether the mask of a row of the last Apply was not there in time.
  bool IsLate(const SampleRow& row) const { return late_.contains(row.sequence); }

  // Time that all Apply together have waited.
  Duration waited() const { return waited_; }

 private:
  void FindLate(std::span<const SampleRow> rows, const ProgressCallback& progress);
  void DecidePatience();

  kernels::Backend* const backend_;
  const model::Range own_;
  // Kept for their memory:
  std::vector<int32_t> masked_;
  std::vector<uint32_t> masks_;  // [masked, words of own]
  std::vector<kernels::LogitAdjustment> ended_;
  absl::flat_hash_set<const SequenceState*> late_;

  std::span<const SampleRow> undecided_;     // the step's, until one of them has to wait
  Duration left_{}, left_behind_guesses_{};  // of the step's time to wait
  Duration waited_{};
};

}  // namespace tutti::worker
