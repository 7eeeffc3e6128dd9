#include "worker/drafter.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/fail_point.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

// The tokens at the head of `drawn` that the sequence has drawn: those behind a wrong guess were
// not.
std::span<const v1::SampledToken> TokensOf(std::span<const v1::SampledToken> drawn) {
  size_t count = 0;
  while (count < drawn.size() && drawn[count].token() >= 0) ++count;
  return drawn.first(count);
}

// Without what bounds a text but does not choose its words (grammar, excluded tokens), and without
// biased ids, which the draft model's vocabulary may lack.
v1::SequenceSampling SamplingOfDrafts(const v1::SequenceSampling& target) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(target.temperature());
  sampling.set_top_k(target.top_k());
  sampling.set_top_p(target.top_p());
  sampling.set_min_p(target.min_p());
  sampling.set_repetition_penalty(target.repetition_penalty());
  sampling.set_presence_penalty(target.presence_penalty());
  sampling.set_frequency_penalty(target.frequency_penalty());
  sampling.set_seed(target.seed());
  return sampling;
}

}  // namespace

Drafter::Drafter(const StageRunner::DraftModel& model, const Limits& limits)
    : model_(model.runner),
      max_model_len_(std::min(model.max_model_len, limits.max_model_len)),
      limits_(limits),
      blocks_(limits.num_blocks, limits.block_size) {
  CHECK(model_ != nullptr);
}

void Drafter::ForgetAll() {
  texts_.clear();
  going_.clear();
  passes_ = 0;
}

DraftedBlocks::Text Drafter::InBlocks(const Going& going) const {
  return {.tokens = going.text->state.tokens,
          .blocks = going.sequence->blocks,
          .names = &going.text->names};
}

Drafter::Text& Drafter::TextOf(const SequenceState& sequence) {
  const auto [at, added] = texts_.try_emplace(sequence.id.value());
  SequenceState& state = at->second.state;
  if (added) {
    state.id = sequence.id;
    state.prompt_tokens = sequence.prompt_tokens;
    state.sampling = SamplingOfDrafts(sequence.sampling);
  }
  return at->second;
}

bool Drafter::GoesOn(const v1::StepPlan& plan) {
  return std::any_of(plan.scheduled().begin(), plan.scheduled().end(),
                     [](const v1::ScheduledSequence& scheduled) { return scheduled.has_drafts(); });
}

bool Drafter::Put(TokenId id, Text* text) const {
  text->given_up = text->given_up || id < 0 || id >= model_->vocab_size();
  if (!text->given_up) text->state.Append(id);
  return !text->given_up;
}

// What is cut was drawn, by the target or here, so it is of the output.
void Drafter::CutTo(int32_t tokens, Text* text) const {
  while (static_cast<int32_t>(text->state.tokens.size()) > tokens) text->state.TakeBack();
  if (!TUTTI_FAIL_POINT("worker.keep_wrong_drafts")) {
    text->computed = std::min(text->computed, tokens);
  }
  const auto whole = static_cast<size_t>(tokens / limits_.block_size);
  text->names.resize(std::min(text->names.size(), whole));
}

// Brings the text in line with the first `known` tokens of the sequence and those drawn behind
// them.
void Drafter::Follow(const SequenceState& sequence, int32_t known,
                     std::span<const v1::SampledToken> drawn, Text* text) const {
  const std::vector<TokenId>& had = text->state.tokens;
  const auto wanted = [&](int32_t at) {
    return at < known ? sequence.tokens[at] : drawn[at - known].token();
  };
  const auto end = known + static_cast<int32_t>(drawn.size());
  int32_t same = text->settled;
  while (same < std::min(end, static_cast<int32_t>(had.size())) && had[same] == wanted(same)) {
    ++same;
  }
  CutTo(same, text);
  while (same < end && Put(wanted(same), text)) ++same;
  text->settled = std::min(known, same);
}

void Drafter::Add(const v1::ScheduledSequence& scheduled, const SequenceState& sequence,
                  std::span<const v1::SampledToken> drawn) {
  const std::span<const v1::SampledToken> tokens = TokensOf(drawn);
  const TokenId after = tokens.size() < drawn.size() ? drawn[tokens.size()].token() : 0;
  if (after == kTokenOfNoNumbers) return;  // it ends here
  Text& text = TextOf(sequence);
  if (text.given_up) return;
  Follow(sequence, sequence.computed, tokens, &text);
  if (text.given_up) return;
  Going going = {.text = &text,
                 .sequence = &sequence,
                 .known = static_cast<int32_t>(text.state.tokens.size())};
  const int64_t slots = static_cast<int64_t>(sequence.blocks.size()) * limits_.block_size;
  going.end = static_cast<int32_t>(std::min<int64_t>(slots, max_model_len_));
  // A late token is drawn by a later step, of the same row; what is behind it nobody asks for.
  const bool has_drawn = !tokens.empty() && after != kLateToken;
  if (has_drawn && going.known <= going.end && going.known < max_model_len_) {
    going.drafts = scheduled.drafts();
  }
  text.computed = blocks_.ComputedTo(InBlocks(going), text.computed, sequence.cached);
  // The row that is drawn from, again where it was that of a guess.
  if (going.drafts > 0) text.computed = std::min(text.computed, going.known - 1);
  going.missing = std::max(0, std::min(going.known, going.end) - text.computed);
  if (going.missing > 0) going_.push_back(going);
}

// Those that miss few rows come first, so that a long text cannot keep others from being drafted.
void Drafter::ShareRows(int64_t rows_of_step) {
  std::sort(going_.begin(), going_.end(), [](const Going& a, const Going& b) {
    return std::tuple(a.missing, a.sequence->id.value()) <
           std::tuple(b.missing, b.sequence->id.value());
  });
  auto left = static_cast<int32_t>(
      std::min<int64_t>(limits_.max_batch_tokens, rows_of_step + kDraftRowsBehindMax));
  for (Going& going : going_) {
    going.rows = std::min(going.missing, left);
    left -= going.rows;
    going.draws = going.drafts > 0 && going.text->computed + going.rows == going.known;
  }
}

void Drafter::BuildBatch(uint64_t step) {
  batch_.step = StepId(step);
  batch_.rows = 0;
  batch_.sequences.clear();
  batch_.tokens.clear();
  batch_.positions.clear();
  batch_.row_begin.assign(1, 0);
  batch_.first_position.clear();
  batch_.prompt_tokens.clear();
  batch_.block_begin.clear();
  batch_.blocks.clear();
  batch_.sample_rows.clear();
  for (const Going& going : going_) {
    if (going.rows == 0) continue;
    const Text& text = *going.text;
    const auto first = text.state.tokens.begin() + text.computed;
    batch_.tokens.insert(batch_.tokens.end(), first, first + going.rows);
    for (int32_t i = 0; i < going.rows; ++i) batch_.positions.push_back(text.computed + i);
    batch_.sequences.push_back(text.state.id);
    batch_.rows += going.rows;
    batch_.row_begin.push_back(batch_.rows);
    batch_.first_position.push_back(text.computed);
    batch_.prompt_tokens.push_back(text.state.prompt_tokens);
    batch_.block_begin.push_back(static_cast<int32_t>(batch_.blocks.size()));
    const std::vector<int32_t>& blocks = going.sequence->blocks;
    batch_.blocks.insert(batch_.blocks.end(), blocks.begin(), blocks.end());
    if (going.draws) {
      batch_.sample_rows.push_back({.row = batch_.rows - 1, .sequence = &text.state});
    }
  }
}

// One guess more, or the end of it.
void Drafter::Take(TokenId drawn, Going* going) const {
  Text& text = *going->text;
  text.given_up = drawn == kTokenOfNoNumbers;
  going->draws = drawn >= 0 && drawn < limits_.vocab_size && Put(drawn, &text);
  const auto tokens = static_cast<int32_t>(text.state.tokens.size());
  if (--going->drafts <= 0 || tokens > going->end || tokens >= max_model_len_) {
    going->draws = false;
  }
  if (going->draws) going->rows = 1;
}

absl::Status Drafter::RunPass(uint64_t step, const ProgressCallback& progress,
                              const BeginCallback& begin) {
  BuildBatch(step);
  sampled_.clear();
  ++passes_;
  if (begin) begin(model_->WorkOf(batch_));
  TUTTI_RETURN_IF_ERROR(model_->Run(batch_, {}, {}, &sampled_, progress));
  (void)model_->PopFaults();  // they end no request
  CHECK(sampled_.size() == batch_.sample_rows.size());
  size_t next = 0;
  for (Going& going : going_) {
    if (going.rows == 0) continue;
    Text& text = *going.text;
    blocks_.OnComputed(InBlocks(going), text.computed, text.computed + going.rows);
    text.computed += going.rows;
    going.rows = 0;
    if (going.draws) Take(sampled_[next++].token(), &going);
  }
  return absl::OkStatus();
}

absl::Status Drafter::GoOn(const v1::StepPlan& plan, const SequenceTable& table,
                           std::span<const v1::SampledToken> sampled,
                           const ProgressCallback& progress, const BeginCallback& begin) {
  going_.clear();
  passes_ = 0;
  size_t next = 0;
  int64_t rows_of_step = 0;
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    const size_t rows = scheduled.sample() ? 1 + static_cast<size_t>(scheduled.guesses_size()) : 0;
    CHECK(next + rows <= sampled.size());
    const auto drawn = sampled.subspan(next, rows);
    next += rows;
    if (!scheduled.has_drafts()) continue;
    rows_of_step += scheduled.count();
    const SequenceState* const sequence = table.Find(SequenceId(scheduled.sequence()));
    CHECK(sequence != nullptr) << "sequence " << scheduled.sequence() << " was not applied";
    Add(scheduled, *sequence, drawn);
  }
  ShareRows(rows_of_step);
  const auto is_due = [](const Going& going) { return going.rows > 0; };
  while (std::any_of(going_.begin(), going_.end(), is_due)) {
    TUTTI_RETURN_IF_ERROR(RunPass(plan.step(), progress, begin));
  }
  if (passes_ > 0 && batch_.sample_rows.empty()) model_->Await();
  return absl::OkStatus();
}

void Drafter::AddDrafted(v1::StepResult* result) const {
  for (const Going& going : going_) {
    const std::vector<TokenId>& tokens = going.text->state.tokens;
    if (static_cast<int32_t>(tokens.size()) == going.known) continue;
    v1::DraftedTokens* const drafted = result->add_drafted();
    drafted->set_sequence(going.text->state.id.value());
    drafted->set_position(going.known);
    drafted->mutable_tokens()->Add(tokens.begin() + going.known, tokens.end());
  }
}

}  // namespace tutti::worker
