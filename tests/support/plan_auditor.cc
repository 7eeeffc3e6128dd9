#include "tests/support/plan_auditor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "tests/support/oracle_model.h"

namespace tutti::tests {

void PlanAuditor::BeginEpoch(int32_t num_blocks) {
  blocks_.resize(num_blocks);
  for (Block& block : blocks_) block.holders = 0;
  last_step_ = 0;
  known_.clear();
  plans_without_prompt_ = 0;
}

std::string PlanAuditor::Check(const v1::StepPlan& plan) {
  const std::string step = absl::StrCat("plan ", plan.step(), ": ");
  if (plan.step() != ++last_step_) return absl::StrCat(step, "expected ", last_step_);
  ++plans_;
  const auto bytes = static_cast<int64_t>(plan.ByteSizeLong());
  largest_bytes_ = std::max(largest_bytes_, bytes);
  if (bytes > options_->plan_bytes_max) return absl::StrCat(step, "has ", bytes, " bytes");
  for (const uint64_t id : plan.finished()) {
    const auto found = known_.find(id);
    if (found == known_.end()) return absl::StrCat(step, "forgets unknown sequence ", id);
    for (const int32_t block : found->second.blocks) --blocks_[block].holders;
    known_.erase(found);
  }
  for (const v1::NewSequence& added : plan.new_sequences()) {
    const Known known{.tokens = {added.tokens().begin(), added.tokens().end()},
                      .computed = added.cached_tokens(),
                      .cached = added.cached_tokens()};
    if (known.cached >= added.tokens_size()) return absl::StrCat(step, "nothing left to compute");
    if (!known_.emplace(added.sequence(), known).second) {
      return absl::StrCat(step, "sequence ", added.sequence(), " is new twice");
    }
  }
  if (static_cast<int32_t>(known_.size()) > options_->max_sequences) {
    return absl::StrCat(step, "the workers must know ", known_.size(), " sequences, at most ",
                        options_->max_sequences);
  }
  const std::string starves = CheckPrompts(plan);
  if (!starves.empty()) return absl::StrCat(step, starves);
  int32_t rows = 0;
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    const std::string wrong =
        plan.has_rebuild() ? CheckRebuild(scheduled) : CheckScheduled(scheduled);
    if (!wrong.empty()) return absl::StrCat(step, "sequence ", scheduled.sequence(), " ", wrong);
    rows += scheduled.count();
  }
  rows_ += rows;
  if (rows != plan.total_rows()) return absl::StrCat(step, rows, " rows of ", plan.total_rows());
  if (rows < 1 || rows > options_->max_batch_tokens) return absl::StrCat(step, rows, " rows");
  return "";
}

// Prompts get on, however many sequences generate. Before the plan is applied.
std::string PlanAuditor::CheckPrompts(const v1::StepPlan& plan) {
  if (plan.has_rebuild()) return "";
  const auto is_prompt = [](const Known& known) {
    return static_cast<int32_t>(known.tokens.size()) - known.computed > 1;
  };
  const bool wanted = std::any_of(known_.begin(), known_.end(),
                                  [&](const auto& entry) { return is_prompt(entry.second); });
  // For a newcomer the only row left may be its last one.
  const auto is_new = [&](uint64_t sequence) {
    return std::any_of(plan.new_sequences().begin(), plan.new_sequences().end(),
                       [&](const v1::NewSequence& added) { return added.sequence() == sequence; });
  };
  const bool given = std::any_of(
      plan.scheduled().begin(), plan.scheduled().end(), [&](const v1::ScheduledSequence& one) {
        const auto found = known_.find(one.sequence());
        return found != known_.end() && (is_prompt(found->second) || is_new(one.sequence()));
      });
  plans_without_prompt_ = wanted && !given ? plans_without_prompt_ + 1 : 0;
  if (plans_without_prompt_ < coordinator::kRowsPerPromptRow) return "";
  return absl::StrCat("no row of a prompt since ", plans_without_prompt_, " plans");
}

// Tokens that were computed before are computed again where they were, and nothing else changes.
std::string PlanAuditor::CheckRebuild(const v1::ScheduledSequence& scheduled) {
  const auto found = known_.find(scheduled.sequence());
  if (found == known_.end()) return "is not known";
  Known& known = found->second;
  const int32_t end = scheduled.first() + scheduled.count();
  if (scheduled.first() != known.computed || scheduled.count() < 1 || scheduled.sample() ||
      end > static_cast<int32_t>(known.tokens.size()) || known.computed != known.cached) {
    return absl::StrCat("rebuilds ", scheduled.count(), " tokens from ", scheduled.first());
  }
  if (scheduled.new_blocks_size() * options_->block_size < end) return "rebuilds without blocks";
  for (int i = 0; i < scheduled.new_blocks_size(); ++i) {
    const int32_t id = scheduled.new_blocks(i);
    if (id < 0 || id >= static_cast<int32_t>(blocks_.size())) {
      return absl::StrCat("rebuilds block ", id);
    }
    Block& block = blocks_[id];
    const bool full = (i + 1) * options_->block_size <= end;
    if ((block.content == 0 && block.guessed == 0) || (full && !Holds(block, known, i))) {
      return absl::StrCat("rebuilds block ", id, " that does not hold its tokens");
    }
    ++block.holders;
    known.blocks.push_back(id);
  }
  known.computed = end;
  return "";
}

std::string PlanAuditor::CheckScheduled(const v1::ScheduledSequence& scheduled) {
  const auto found = known_.find(scheduled.sequence());
  if (found == known_.end()) return "is not known";
  Known& known = found->second;
  known.tokens.insert(known.tokens.end(), scheduled.new_tokens().begin(),
                      scheduled.new_tokens().end());
  for (const int32_t block : scheduled.new_blocks()) {
    const std::string wrong = AddBlock(block, &known);
    if (!wrong.empty()) return wrong;
  }
  if (scheduled.again()) {
    if (scheduled.count() != 1 || !scheduled.sample() ||
        known.computed != static_cast<int32_t>(known.tokens.size())) {
      return "computes a row again that is not its last";
    }
    --known.computed;
    Block& last = blocks_[known.blocks[known.computed / options_->block_size]];
    if (last.holders == 1) last.content = 0;
  }
  const std::string undrafted = CheckDrafts(scheduled, &known);
  if (!undrafted.empty()) return undrafted;
  const std::string not_right = TakeGuesses(scheduled, &known);
  if (!not_right.empty()) return not_right;
  const int32_t chunk =
      options_->chunk_tokens > 0 ? options_->chunk_tokens : options_->max_batch_tokens;
  const int32_t count = scheduled.count() - scheduled.guesses_size();
  if (count < 1 || count > chunk) return absl::StrCat("computes ", count);
  const int32_t end = known.computed + count;
  if (end > static_cast<int32_t>(known.tokens.size())) {
    return "computes tokens that were never sampled";
  }
  const int32_t rows_end = end + scheduled.guesses_size();
  if (rows_end > static_cast<int32_t>(known.blocks.size()) * options_->block_size) {
    return "computes without blocks";
  }
  if (scheduled.sample() != (end == static_cast<int32_t>(known.tokens.size()))) {
    return "samples at the wrong time";
  }
  std::string wrong = Write(end, known);
  known.computed = end;
  known.guesses.assign(scheduled.guesses().begin(), scheduled.guesses().end());
  guesses_ += known.guesses.size();
  for (int32_t at = end; at < rows_end && wrong.empty(); ++at) {
    const Block& block = blocks_[known.blocks[at / options_->block_size]];
    if (block.holders != 1 || block.content != 0) wrong = "guesses into a block that others read";
  }
  WriteGuesses(known);
  return wrong;
}

void PlanAuditor::TakeDrafts(const v1::StepResult& result) {
  for (const v1::DraftedTokens& drafted : result.drafted()) {
    const auto found = known_.find(drafted.sequence());
    if (found != known_.end()) found->second.drafted = drafted;
  }
}

// Where guesses come from nowhere else they are what the draft model said last, behind the tokens
// that there are now.
std::string PlanAuditor::CheckDrafts(const v1::ScheduledSequence& scheduled, Known* known) const {
  const int32_t most = scheduled.sample() ? coordinator::kGuessesMax : 0;
  if (scheduled.has_drafts() &&
      (options_->drafts_max == 0 || scheduled.drafts() < 0 || scheduled.drafts() > most)) {
    return absl::StrCat("asks for ", scheduled.drafts(), " drafts");
  }
  const v1::DraftedTokens drafted = std::exchange(known->drafted, v1::DraftedTokens());
  if (!options_->only_drafts() || scheduled.guesses().empty()) return "";
  const bool follow = drafted.position() == static_cast<int32_t>(known->tokens.size());
  const bool were_said =
      scheduled.guesses_size() <= drafted.tokens_size() &&
      std::equal(scheduled.guesses().begin(), scheduled.guesses().end(), drafted.tokens().begin());
  return follow && were_said ? "" : "guesses what the draft model did not say";
}

// What the last step guessed right is computed.
std::string PlanAuditor::TakeGuesses(const v1::ScheduledSequence& scheduled, Known* known) {
  const int32_t right = scheduled.first() - known->computed;
  if (right < 0 || right > static_cast<int32_t>(known->guesses.size())) {
    return absl::StrCat("goes on at ", scheduled.first(), " instead of ", known->computed);
  }
  for (int32_t i = 0; i < right; ++i) {
    const auto at = static_cast<size_t>(known->computed + i);
    if (at >= known->tokens.size() || known->tokens[at] != known->guesses[i]) {
      return absl::StrCat("takes guess ", i, " that was wrong");
    }
  }
  right_guesses_ += static_cast<uint64_t>(right);
  for (; known->computed < scheduled.first(); ++known->computed) {
    if ((known->computed + 1) % options_->block_size != 0) continue;
    const size_t index = static_cast<size_t>(known->computed) / options_->block_size;
    Block& block = blocks_[known->blocks[index]];
    block.content = Content(known->tokens, index);
    block.guessed = 0;
  }
  known->guesses.clear();
  return "";
}

std::string PlanAuditor::AddBlock(int32_t block, Known* known) {
  if (block < 0 || block >= static_cast<int32_t>(blocks_.size())) {
    return absl::StrCat("gets block ", block);
  }
  Block& added = blocks_[block];
  const size_t index = known->blocks.size();
  if (static_cast<int32_t>(index + 1) * options_->block_size <= known->cached) {
    if (!Holds(added, *known, index)) {
      return absl::StrCat("shares block ", block, " that does not hold its tokens");
    }
  } else if (added.holders > 0) {
    return absl::StrCat("gets block ", block, " of another sequence");
  } else {
    added.content = added.guessed = 0;
  }
  ++added.holders;
  known->blocks.push_back(block);
  return "";
}

std::string PlanAuditor::Write(int32_t end, const Known& known) {
  for (int32_t at = known.computed; at < end; ++at) {
    const int32_t index = at / options_->block_size;
    Block& block = blocks_[known.blocks[index]];
    if (block.holders != 1 || block.content != 0) {
      return absl::StrCat("writes block ", known.blocks[index], " that others read");
    }
    block.guessed = 0;
    if ((at + 1) % options_->block_size == 0) block.content = Content(known.tokens, index);
  }
  return "";
}

// Blocks that are full of tokens and guesses hold them: when these were right, the block may be
// shared before the sequence is planned again.
void PlanAuditor::WriteGuesses(const Known& known) {
  std::vector<TokenId> tokens = known.tokens;
  tokens.insert(tokens.end(), known.guesses.begin(), known.guesses.end());
  for (size_t at = known.tokens.size(); at < tokens.size(); ++at) {
    const size_t index = at / options_->block_size;
    const bool full = (at + 1) % options_->block_size == 0;
    blocks_[known.blocks[index]].guessed = full ? Content(tokens, index) : 0;
  }
}

bool PlanAuditor::Holds(const Block& block, const Known& known, size_t index) const {
  const uint64_t content = Content(known.tokens, index);
  return block.content == content || block.guessed == content;
}

uint64_t PlanAuditor::Content(const std::vector<TokenId>& tokens, size_t block) const {
  uint64_t digest = 1;
  for (size_t i = 0; i < (block + 1) * options_->block_size; ++i) {
    digest = Digest(digest, static_cast<uint64_t>(tokens[i]));
  }
  return digest;
}

}  // namespace tutti::tests
