#include "worker/batch.h"

#include "base/check.h"
#include "worker/sequence_table.h"

namespace tutti::worker {

void BuildBatch(const v1::StepPlan& plan, SequenceTable* table, Batch* batch) {
  batch->step = StepId(plan.step());
  batch->rows = 0;
  batch->sequences.clear();
  batch->tokens.clear();
  batch->positions.clear();
  batch->row_begin.clear();
  batch->first_position.clear();
  batch->prompt_tokens.clear();
  batch->block_begin.clear();
  batch->blocks.clear();
  batch->sample_rows.clear();
  batch->row_begin.push_back(0);
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    SequenceState* const state = table->FindToGoOn(SequenceId(scheduled.sequence()));
    CHECK(state != nullptr) << "sequence " << scheduled.sequence() << " was not applied";
    const int32_t guesses = scheduled.guesses_size();
    for (int32_t i = 0; i < scheduled.count() - guesses; ++i) {
      batch->tokens.push_back(state->tokens[scheduled.first() + i]);
    }
    batch->tokens.insert(batch->tokens.end(), scheduled.guesses().begin(),
                         scheduled.guesses().end());
    for (int32_t i = 0; i < scheduled.count(); ++i) {
      batch->positions.push_back(scheduled.first() + i);
    }
    batch->sequences.push_back(state->id);
    batch->rows += scheduled.count();
    batch->row_begin.push_back(batch->rows);
    batch->first_position.push_back(scheduled.first());
    batch->prompt_tokens.push_back(state->prompt_tokens);
    batch->block_begin.push_back(static_cast<int32_t>(batch->blocks.size()));
    batch->blocks.insert(batch->blocks.end(), state->blocks.begin(), state->blocks.end());
    if (!scheduled.sample()) continue;
    batch->sample_rows.push_back({.row = batch->rows - 1 - guesses, .sequence = state});
    for (int32_t i = 0; i < guesses; ++i) {
      batch->sample_rows.push_back({.row = batch->rows - guesses + i,
                                    .sequence = state,
                                    .goes_on = state,
                                    .guess = scheduled.guesses(i)});
    }
  }
}

}  // namespace tutti::worker
