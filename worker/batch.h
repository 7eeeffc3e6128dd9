// One step's rows as arrays, in the form kernels read.
//
// Rebuilt for every step into memory that is kept, so that a step allocates nothing once warm.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

class SequenceTable;   // worker/sequence_table.h
struct SequenceState;  // worker/sequence_table.h

// In the place of a token: the row's logits are not numbers, its mask was not made in time, and it
// follows from a guess that was wrong.
inline constexpr TokenId kTokenOfNoNumbers = -1;
inline constexpr TokenId kLateToken = -2;
inline constexpr TokenId kTokenNotDrawn = -3;

// A row whose logits are wanted.
struct SampleRow {
  int32_t row = 0;  // in the step
  // Its tokens so far; the sampled one will stand at index tokens.size().
  const SequenceState* sequence = nullptr;
  // Where the row's own token is a guess: the sequence, to which it is added for the row's sake
  // (verification.h). The row before is that of the guess before, or of the last token.
  SequenceState* goes_on = nullptr;
  TokenId guess = 0;
};

struct Batch {
  StepId step;
  int32_t rows = 0;
  std::vector<SequenceId> sequences;    // [sequences]
  std::vector<TokenId> tokens;          // [rows]
  std::vector<int32_t> positions;       // [rows]
  std::vector<int32_t> row_begin;       // [sequences + 1]
  std::vector<int32_t> first_position;  // [sequences]
  std::vector<int32_t> prompt_tokens;   // [sequences], of their whole prompts
  std::vector<int32_t> block_begin;     // [sequences], into `blocks`
  std::vector<int32_t> blocks;          // block tables of the sequences, one after the other
  std::vector<SampleRow> sample_rows;
};

// Fills *batch from a plan that `table` has just applied; `batch` points into `table` until the
// next plan is applied. Rows stand in the order of plan.scheduled.
void BuildBatch(const v1::StepPlan& plan, SequenceTable* table, Batch* batch);

}  // namespace tutti::worker
