#include "coordinator/steps/rebuilds.h"

#include <algorithm>

#include "coordinator/limits.h"

namespace tutti::coordinator {

Rebuilds::Planned Rebuilds::Plan(uint64_t* last_id, v1::StepPlan* plan) {
  Planned planned;
  int32_t rows_left = options_.max_batch_tokens;
  int64_t bytes_left = PlanBytesForNew(options_);
  int64_t fields_left = PlanFieldsForNew(options_);
  const int32_t entries_max = std::min(kStepSequencesMax, options_.max_sequences);
  std::vector<Sequence*> left;
  for (Sequence* const sequence : waiting_) {
    const std::optional<int32_t> first = cache_->FirstDue(*sequence);
    if (!first.has_value()) {
      planned.ready.push_back(sequence);
      continue;
    }
    left.push_back(sequence);
    if (rows_left == 0 || plan->scheduled_size() == entries_max) continue;
    const std::vector<BlockId>& blocks = sequence->stay.blocks;
    const LackingBlocks::Part part = cache_->lacking()->PartOf(blocks[*first]);
    if (!planned.rebuild.has_value()) {
      planned.rebuild.emplace(StepUnderWay::Rebuild{.part = part});
      plan->mutable_rebuild()->set_first_stage(part.first_stage);
      plan->mutable_rebuild()->set_last_stage(part.last_stage);
    }
    StepUnderWay::Rebuild& rebuild = *planned.rebuild;
    // A block before may be in this very step; then the next has these.
    const bool follows = std::any_of(blocks.begin(), blocks.begin() + *first, [&](BlockId block) {
      return std::find(rebuild.blocks.begin(), rebuild.blocks.end(), block) != rebuild.blocks.end();
    });
    bytes_left -= NewSequenceBytes(options_, sequence->total(), sequence->request.sampling);
    fields_left -= NewSequenceFields(sequence->request.sampling);
    const bool fits = (bytes_left >= 0 && fields_left >= 0) || plan->scheduled_size() == 0;
    if (follows || part != rebuild.part || !fits) continue;
    const SequenceId id(++*last_id);
    planned.told.push_back(id);
    rows_left -= AddEntry(*sequence, *first, rows_left, id, &rebuild, plan);
    rebuild.sequences.push_back(sequence->stay.id);
    ++sequence->stay.rebuilds;
    if (!cache_->FirstDue(*sequence).has_value()) {
      left.pop_back();
      planned.ready.push_back(sequence);
    }
  }
  waiting_ = std::move(left);
  if (planned.rebuild.has_value()) {
    planned.rebuild->rows = options_.max_batch_tokens - rows_left;
    plan->set_total_rows(planned.rebuild->rows);
  }
  return planned;
}

// An entry for the due blocks of a sequence from `first_block` on that are of the rebuild's part.
// Its rows.
int32_t Rebuilds::AddEntry(const Sequence& sequence, int32_t first_block, int32_t rows_max,
                           SequenceId id, StepUnderWay::Rebuild* rebuild, v1::StepPlan* plan) {
  LackingBlocks& lacking = *cache_->lacking();
  const Sequence::Stay& stay = sequence.stay;
  const int32_t size = options_.block_size;
  const int32_t first = first_block * size + lacking.planned_rows(stay.blocks[first_block]);
  int32_t end = first;
  for (int32_t i = first_block; i < stay.published && end - first < rows_max; ++i) {
    const BlockId block = stay.blocks[i];
    if (!lacking.IsDue(block) || lacking.PartOf(block) != rebuild->part) break;
    // Half of it may be planned for another sequence that had it; that comes first.
    if (i > first_block && lacking.planned_rows(block) > 0) break;
    const int32_t rows = std::min((i + 1) * size - end, rows_max - (end - first));
    lacking.Plan(block, rebuild->part, rows, size);
    end += rows;
    if (end == (i + 1) * size) rebuild->blocks.push_back(block);
  }
  v1::NewSequence* const added = plan->add_new_sequences();
  added->set_sequence(id.value());
  // The whole prompt: its length decides how positions turn.
  const int32_t tokens = std::max(sequence.prompt_tokens, end);
  added->mutable_tokens()->Add(sequence.tokens.begin(), sequence.tokens.begin() + tokens);
  added->set_prompt_tokens(sequence.prompt_tokens);
  added->set_cached_tokens(first);
  added->mutable_sampling()->set_top_p(1);
  added->mutable_sampling()->set_repetition_penalty(1);
  v1::ScheduledSequence* const scheduled = plan->add_scheduled();
  scheduled->set_sequence(id.value());
  scheduled->set_first(first);
  scheduled->set_count(end - first);
  const int32_t blocks = (end + size - 1) / size;
  for (int32_t i = 0; i < blocks; ++i) scheduled->add_new_blocks(stay.blocks[i].value());
  scheduled->set_expected_tokens(tokens);
  scheduled->set_expected_blocks(blocks);
  return end - first;
}

void Rebuilds::Commit(const StepUnderWay::Rebuild& rebuild) {
  for (const BlockId block : rebuild.blocks) cache_->lacking()->Finish(block, rebuild.part);
  tokens_ += static_cast<uint64_t>(rebuild.rows);
}

}  // namespace tutti::coordinator
