#include "worker/sequence_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

std::string Name(uint64_t sequence) { return absl::StrCat("sequence ", sequence); }

absl::Status Finite(const char* field, float value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", not a number in range"));
}

absl::Status SamplingInRange(const char* field, float value, float low, float high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", not in [", low, ", ", high, "]"));
}

absl::Status CheckTokenId(TokenId id, int32_t vocab_size) {
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("token id ", id, " is not in [0, ", vocab_size, ")"));
}

absl::Status CheckTokenIds(const char* field, const google::protobuf::RepeatedField<int32_t>& ids,
                           int32_t vocab_size) {
  for (const TokenId id : ids) TUTTI_RETURN_IF_ERROR(Annotate(CheckTokenId(id, vocab_size), field));
  return absl::OkStatus();
}

// Limits on what is drawn.
absl::Status ValidateMask(const v1::SequenceSampling& sampling, int32_t vocab_size) {
  if (sampling.end_ids_size() > kPlanEndIdsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(sampling.end_ids_size(), " end_ids, at most ", kPlanEndIdsMax));
  }
  TUTTI_RETURN_IF_ERROR(CheckTokenIds("end_ids", sampling.end_ids(), vocab_size));
  if (sampling.banned_size() > kPlanBannedMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(sampling.banned_size(), " entries of banned, at most ", kPlanBannedMax));
  }
  int64_t ids = 0;
  for (const v1::BannedTokens& banned : sampling.banned()) {
    ids += banned.ids_size();
    if (banned.ids().empty() || ids > kPlanBannedIdsMax) {
      return absl::InvalidArgumentError(absl::StrCat("banned has an entry of ", banned.ids_size(),
                                                     " ids; each has one at least, all together ",
                                                     kPlanBannedIdsMax, " at most"));
    }
    TUTTI_RETURN_IF_ERROR(CheckTokenIds("banned", banned.ids(), vocab_size));
  }
  TUTTI_RETURN_IF_ERROR(CheckTokenIds("allowed_ids", sampling.allowed_ids(), vocab_size));
  const auto& allowed = sampling.allowed_ids();
  if (std::adjacent_find(allowed.begin(), allowed.end(), std::greater_equal<>()) != allowed.end()) {
    return absl::InvalidArgumentError("allowed_ids are not in ascending order");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSampling(const v1::SequenceSampling& sampling, int32_t vocab_size) {
  TUTTI_RETURN_IF_ERROR(Finite("temperature", sampling.temperature()));
  if (sampling.temperature() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature is ", sampling.temperature(), ", below 0"));
  }
  TUTTI_RETURN_IF_ERROR(SamplingInRange("top_p", sampling.top_p(), 0, 1));
  TUTTI_RETURN_IF_ERROR(SamplingInRange("min_p", sampling.min_p(), 0, 1));
  TUTTI_RETURN_IF_ERROR(Finite("repetition_penalty", sampling.repetition_penalty()));
  if (sampling.repetition_penalty() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("repetition_penalty is ", sampling.repetition_penalty(), ", below 0"));
  }
  TUTTI_RETURN_IF_ERROR(Finite("presence_penalty", sampling.presence_penalty()));
  TUTTI_RETURN_IF_ERROR(Finite("frequency_penalty", sampling.frequency_penalty()));
  if (sampling.bias_ids_size() != sampling.bias_values_size() ||
      sampling.bias_ids_size() > kPlanBiasIdsMax) {
    return absl::InvalidArgumentError(absl::StrCat(sampling.bias_ids_size(), " bias_ids and ",
                                                   sampling.bias_values_size(),
                                                   " bias_values, at most ", kPlanBiasIdsMax));
  }
  TUTTI_RETURN_IF_ERROR(CheckTokenIds("bias_ids", sampling.bias_ids(), vocab_size));
  for (const float value : sampling.bias_values()) {
    TUTTI_RETURN_IF_ERROR(Finite("bias_values", value));
  }
  if (sampling.top_logprobs() > kPlanTopLogprobsMax) {
    return absl::InvalidArgumentError(absl::StrCat("top_logprobs is ", sampling.top_logprobs(),
                                                   ", at most ", kPlanTopLogprobsMax));
  }
  return ValidateMask(sampling, vocab_size);
}

void SequenceState::Append(TokenId id) {
  const bool in_prompt = static_cast<int64_t>(tokens.size()) < prompt_tokens;
  tokens.push_back(id);
  if (!has_penalties()) return;
  TokenCount& count = counts[id];
  if (in_prompt) {
    count.in_prompt = true;
  } else {
    ++count.in_output;
  }
}

// REQUIRES: the last token is one of the output
void SequenceState::TakeBack() {
  const TokenId id = tokens.back();
  tokens.pop_back();
  if (!has_penalties() || TUTTI_FAIL_POINT("worker.keep_guessed_counts")) return;
  const auto found = counts.find(id);
  if (--found->second.in_output == 0 && !found->second.in_prompt) counts.erase(found);
}

absl::Status SequenceTable::Apply(const v1::StepPlan& plan) {
  TUTTI_RETURN_IF_ERROR(CheckRows(plan));
  for (const uint64_t id : plan.finished()) {
    if (sequences_.erase(id) == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(Name(id), " is finished by step ", plan.step(), " but not known here"));
    }
  }
  for (const v1::NewSequence& added : plan.new_sequences()) {
    TUTTI_RETURN_IF_ERROR(Annotate(Add(added), Name(added.sequence())));
  }
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    TUTTI_RETURN_IF_ERROR(Annotate(Advance(plan.step(), scheduled), Name(scheduled.sequence())));
  }
  return absl::OkStatus();
}

SequenceState* SequenceTable::FindToGoOn(SequenceId id) {
  const auto found = sequences_.find(id.value());
  return found == sequences_.end() ? nullptr : &found->second;
}

const SequenceState* SequenceTable::Find(SequenceId id) const {
  const auto found = sequences_.find(id.value());
  return found == sequences_.end() ? nullptr : &found->second;
}

// Checked before anything is applied: later sums cannot overflow.
absl::Status SequenceTable::CheckRows(const v1::StepPlan& plan) const {
  if (plan.scheduled_size() > limits_.max_step_sequences) {
    return absl::InvalidArgumentError(absl::StrCat("step ", plan.step(), " schedules ",
                                                   plan.scheduled_size(), " sequences, at most ",
                                                   limits_.max_step_sequences));
  }
  int64_t rows = 0;
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    if (scheduled.count() < 1 || scheduled.count() > limits_.max_batch_tokens) {
      return absl::InvalidArgumentError(absl::StrCat(Name(scheduled.sequence()), ": count ",
                                                     scheduled.count(), " is not in [1, ",
                                                     limits_.max_batch_tokens, "]"));
    }
    rows += scheduled.count();
  }
  if (rows > limits_.max_batch_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("step ", plan.step(), " has ", rows,
                                                   " rows, at most ", limits_.max_batch_tokens));
  }
  if (rows != plan.total_rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", plan.step(), " has ", rows, " rows but says total_rows ", plan.total_rows()));
  }
  return absl::OkStatus();
}

absl::Status SequenceTable::Add(const v1::NewSequence& added) {
  if (sequences_.contains(added.sequence())) {
    return absl::FailedPreconditionError("is new but already known");
  }
  if (sequences_.size() >= static_cast<size_t>(limits_.max_known_sequences)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("would be one more than the ", limits_.max_known_sequences, " kept"));
  }
  if (added.tokens().empty() || added.prompt_tokens() < 1 ||
      added.prompt_tokens() > added.tokens_size()) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_tokens ", added.prompt_tokens(), " of ",
                                                   added.tokens_size(), " tokens"));
  }
  // At least one token is left, whose logits give the next.
  if (added.cached_tokens() < 0 || added.cached_tokens() >= added.tokens_size()) {
    return absl::InvalidArgumentError(absl::StrCat("cached_tokens ", added.cached_tokens(), " of ",
                                                   added.tokens_size(), " tokens"));
  }
  TUTTI_RETURN_IF_ERROR(ValidateSampling(added.sampling(), limits_.vocab_size));
  SequenceState state;
  state.id = SequenceId(added.sequence());
  state.prompt_tokens = added.prompt_tokens();
  state.sampling = added.sampling();
  state.cached = state.computed = added.cached_tokens();
  TUTTI_RETURN_IF_ERROR(AppendTokens(added.tokens(), &state));
  // Its text may be long, and is of no more use here.
  const std::unique_ptr<v1::SequenceGrammar> grammar(state.sampling.release_grammar());
  if (grammar != nullptr && grammars_ != nullptr) {
    state.grammar = grammars_->Begin(std::move(*grammar), state.sampling);
  }
  sequences_.emplace(added.sequence(), std::move(state));
  return absl::OkStatus();
}

absl::Status SequenceTable::Advance(uint64_t step, const v1::ScheduledSequence& scheduled) {
  const auto found = sequences_.find(scheduled.sequence());
  if (found == sequences_.end()) {
    return absl::FailedPreconditionError("is scheduled but not known here");
  }
  SequenceState& state = found->second;
  if (state.last_step == step) {
    return absl::InvalidArgumentError(absl::StrCat("is scheduled twice in step ", step));
  }
  TUTTI_RETURN_IF_ERROR(AppendTokens(scheduled.new_tokens(), &state));
  TUTTI_RETURN_IF_ERROR(AppendBlocks(scheduled.new_blocks(), &state));
  const auto tokens = static_cast<int32_t>(state.tokens.size());
  const auto blocks = static_cast<int32_t>(state.blocks.size());
  if (tokens != scheduled.expected_tokens()) {
    return absl::FailedPreconditionError(
        absl::StrCat("has ", tokens, " tokens, plan expects ", scheduled.expected_tokens()));
  }
  if (blocks != scheduled.expected_blocks()) {
    return absl::FailedPreconditionError(
        absl::StrCat("has ", blocks, " blocks, plan expects ", scheduled.expected_blocks()));
  }
  if (scheduled.again()) TUTTI_RETURN_IF_ERROR(StepBack(scheduled, &state));
  TUTTI_RETURN_IF_ERROR(TakeGuesses(scheduled, &state));
  TUTTI_RETURN_IF_ERROR(CheckEnd(scheduled, state));
  TUTTI_RETURN_IF_ERROR(CheckDrafts(scheduled));
  state.computed = scheduled.first() + scheduled.count() - scheduled.guesses_size();
  state.guesses.assign(scheduled.guesses().begin(), scheduled.guesses().end());
  state.last_step = step;
  return absl::OkStatus();
}

// Those of the last step's guesses that were right are computed.
absl::Status SequenceTable::TakeGuesses(const v1::ScheduledSequence& scheduled,
                                        SequenceState* state) const {
  const int64_t right = int64_t{scheduled.first()} - state->computed;
  const auto guessed = static_cast<int64_t>(state->guesses.size());
  if (right < 0 || right > guessed) {
    return absl::FailedPreconditionError(
        absl::StrCat("is computed to ", state->computed,
                     guessed == 0 ? "" : absl::StrCat(", with ", guessed, " guesses behind it"),
                     ", plan goes on at ", scheduled.first()));
  }
  const auto tokens = static_cast<int64_t>(state->tokens.size());
  for (int64_t i = 0; i < right; ++i) {
    const int64_t at = state->computed + i;
    if (at < tokens && state->tokens[at] == state->guesses[i]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("goes on behind a guess at position ", at, " that is not its token"));
  }
  state->computed = scheduled.first();
  return absl::OkStatus();
}

absl::Status SequenceTable::CheckEnd(const v1::ScheduledSequence& scheduled,
                                     const SequenceState& state) const {
  const auto tokens = static_cast<int32_t>(state.tokens.size());
  const auto blocks = static_cast<int32_t>(state.blocks.size());
  const int32_t guesses = scheduled.guesses_size();
  const int32_t known = scheduled.count() - guesses;
  if (guesses > kPlanGuessesMax || guesses > limits_.max_model_len - tokens || known < 1) {
    return absl::InvalidArgumentError(absl::StrCat("has ", guesses, " guesses among ",
                                                   scheduled.count(), " rows, behind ", tokens,
                                                   " tokens"));
  }
  if (scheduled.first() < 0 || scheduled.first() > tokens - known) {
    return absl::InvalidArgumentError(
        absl::StrCat("computes ", known, " tokens from ", scheduled.first(), " but has ", tokens));
  }
  const int32_t end = scheduled.first() + known;
  if (end + guesses > int64_t{blocks} * limits_.block_size) {
    return absl::InvalidArgumentError(absl::StrCat("computes up to position ", end + guesses,
                                                   " but has ", blocks, " blocks of ",
                                                   limits_.block_size));
  }
  if ((scheduled.sample() || guesses > 0) && end != tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples after position ", end, " but has ", tokens, " tokens"));
  }
  if (guesses > 0 && !scheduled.sample()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", guesses, " guesses and samples none"));
  }
  return CheckTokenIds("guesses", scheduled.guesses(), limits_.vocab_size);
}

absl::Status SequenceTable::CheckDrafts(const v1::ScheduledSequence& scheduled) const {
  if (!scheduled.has_drafts()) return absl::OkStatus();
  if (scheduled.drafts() < 0 || scheduled.drafts() > kPlanGuessesMax) {
    return absl::InvalidArgumentError(absl::StrCat("drafts is ", scheduled.drafts(),
                                                   ", not in [0, ", kPlanGuessesMax, "]"));
  }
  if (limits_.takes_drafts) return absl::OkStatus();
  return absl::InvalidArgumentError("has drafts, but this worker's shard has no draft model");
}

// Its last row is computed once more.
absl::Status SequenceTable::StepBack(const v1::ScheduledSequence& scheduled,
                                     SequenceState* state) const {
  const bool is_last = state->computed > 0 &&
                       state->computed == static_cast<int32_t>(state->tokens.size()) &&
                       scheduled.count() == 1 && scheduled.sample();
  if (!is_last) {
    return absl::InvalidArgumentError(
        absl::StrCat("computes its last row again, but is computed to ", state->computed, " of ",
                     state->tokens.size(), " tokens, and has ", scheduled.count(), " rows",
                     scheduled.sample() ? "" : " and no sample"));
  }
  --state->computed;
  return absl::OkStatus();
}

absl::Status SequenceTable::AppendTokens(const Ids& tokens, SequenceState* state) const {
  if (tokens.size() > limits_.max_model_len - static_cast<int64_t>(state->tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat("would have ",
                                                   state->tokens.size() + tokens.size(),
                                                   " tokens, at most ", limits_.max_model_len));
  }
  for (const TokenId id : tokens) {
    TUTTI_RETURN_IF_ERROR(CheckTokenId(id, limits_.vocab_size));
    state->Append(id);
  }
  return absl::OkStatus();
}

absl::Status SequenceTable::AppendBlocks(const Ids& blocks, SequenceState* state) const {
  if (blocks.size() > limits_.num_blocks - static_cast<int64_t>(state->blocks.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "would have ", state->blocks.size() + blocks.size(), " blocks of ", limits_.num_blocks));
  }
  for (const int32_t id : blocks) {
    if (id < 0 || id >= limits_.num_blocks) {
      return absl::InvalidArgumentError(
          absl::StrCat("block id ", id, " is not in [0, ", limits_.num_blocks, ")"));
    }
    state->blocks.push_back(id);
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
