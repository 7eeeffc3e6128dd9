#include "coordinator/steps/step_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/limits.h"
#include "door/limits.h"

namespace tutti::coordinator {
namespace {

absl::Status CheckTokenId(int64_t token, int64_t vocab_size) {
  if (token >= 0 && token < vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("token ", token, " is not in the vocabulary of ", vocab_size));
}

absl::Status CheckSampled(const v1::SampledToken& sampled, int32_t position, int64_t vocab_size) {
  if (sampled.position() != position) {
    return absl::InvalidArgumentError(
        absl::StrCat("position ", sampled.position(), " sampled, expected ", position));
  }
  TUTTI_RETURN_IF_ERROR(CheckTokenId(sampled.token(), vocab_size));
  if (std::isnan(sampled.logprob())) {
    return absl::InvalidArgumentError("its log-probability is not a number");
  }
  if (sampled.top_ids_size() != sampled.top_logprobs_size() ||
      sampled.top_ids_size() > door::kTopLogprobsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(sampled.top_ids_size(), " top_ids and ", sampled.top_logprobs_size(),
                     " top_logprobs, at most ", door::kTopLogprobsMax));
  }
  for (const int32_t id : sampled.top_ids()) TUTTI_RETURN_IF_ERROR(CheckTokenId(id, vocab_size));
  return absl::OkStatus();
}

}  // namespace

void StepWindow::Clear() {
  while (!steps_.empty()) Pop();
  last_id_ = StepId();
}

bool StepWindow::IsAll(SequenceId sequence) const {
  const auto is_it = [sequence](SequenceId id) { return id == sequence; };
  const auto has_only = [&](const StepUnderWay& step) {
    if (step.rebuild.has_value()) {
      return std::all_of(step.rebuild->sequences.begin(), step.rebuild->sequences.end(), is_it);
    }
    return std::all_of(step.entries.begin(), step.entries.end(),
                       [&](const StepEntry& entry) { return is_it(entry.sequence); });
  };
  return !steps_.empty() && std::all_of(steps_.begin(), steps_.end(), has_only);
}

int32_t StepWindow::GuessesOf(SequenceId sequence) const {
  int32_t guesses = 0;
  for (const StepUnderWay& step : steps_) {
    for (const StepEntry& entry : step.entries) {
      if (entry.sequence == sequence) guesses += entry.guesses;
    }
  }
  return guesses;
}

StepUnderWay* StepWindow::Push() {
  StepUnderWay step{.id = ++last_id_};
  if (!spare_.empty()) {
    step.entries = std::move(spare_.back());
    spare_.pop_back();
    step.entries.clear();
  }
  return &steps_.emplace_back(std::move(step));
}

void StepWindow::Pop() {
  CHECK(!steps_.empty());
  spare_.push_back(std::move(steps_.front().entries));
  steps_.pop_front();
}

absl::Status StepWindow::Check(const v1::StepResult& result, int64_t vocab_size) const {
  // The last stage has no part in most rebuilds, and answers before they are done.
  auto step = steps_.begin();
  while (step != steps_.end() && step->rebuild.has_value() && step->id.value() < result.step()) {
    ++step;
  }
  if (step == steps_.end() || result.step() != step->id.value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("result of step ", result.step(), ", expected ",
                     step == steps_.end() ? "none" : absl::StrCat("step ", step->id.value())));
  }
  int sampled = 0;
  int poisoned = 0;
  int undrawn = 0;
  int late = 0;
  for (const StepEntry& entry : step->entries) {
    if (!entry.sample) continue;
    const uint64_t id = entry.sequence.value();
    // Whether a token is due behind those that it has: each that was guessed brings another.
    bool due = true;
    for (int32_t i = 0; due && sampled < result.sampled_size(); ++i, ++sampled) {
      const v1::SampledToken& token = result.sampled(sampled);
      if (token.sequence() != id) break;
      TUTTI_RETURN_IF_ERROR(Annotate(CheckSampled(token, entry.end + i, vocab_size),
                                     absl::StrCat("step ", result.step(), ", sequence ", id)));
      due = i < entry.guesses && token.token() == step->guesses[entry.first_guess + i];
    }
    if (!due) continue;
    if (poisoned < result.poisoned_size() && result.poisoned(poisoned) == id) {
      ++poisoned;
    } else if (undrawn < result.undrawn_size() && result.undrawn(undrawn).sequence() == id) {
      ++undrawn;
    } else if (late < result.late_size() && result.late(late) == id) {
      ++late;
    } else {
      return absl::FailedPreconditionError(absl::StrCat(
          "result of step ", result.step(), " lacks sequence ", id, " or has it out of order"));
    }
  }
  const int all =
      result.sampled_size() + result.poisoned_size() + result.undrawn_size() + result.late_size();
  if (sampled + poisoned + undrawn + late != all) {
    return absl::FailedPreconditionError(absl::StrCat("result of step ", result.step(), " names ",
                                                      all, " sequences, expected ",
                                                      sampled + poisoned + undrawn + late));
  }
  return CheckDrafts(*step, result, vocab_size);
}

namespace {

// A sequence whose drafts were asked for.
struct Asked {
  uint64_t sequence = 0;
  int32_t most = 0;
  int32_t position = 0;  // of the first; 0: no token was drawn that they could follow
};

absl::Status CheckDrafted(const v1::DraftedTokens& drafted, const Asked& asked,
                          int64_t vocab_size) {
  if (drafted.tokens_size() > asked.most) {
    return absl::FailedPreconditionError(
        absl::StrCat(drafted.tokens_size(), " tokens, at most ", asked.most, " were asked for"));
  }
  if (asked.position == 0 || drafted.position() != asked.position) {
    return absl::FailedPreconditionError(absl::StrCat(
        "position ", drafted.position(), ", expected ",
        asked.position == 0 ? "none, as no token was drawn" : absl::StrCat(asked.position)));
  }
  for (const int32_t token : drafted.tokens()) {
    TUTTI_RETURN_IF_ERROR(CheckTokenId(token, vocab_size));
  }
  return absl::OkStatus();
}

}  // namespace

// Of a result whose tokens are those that the step can have.
absl::Status StepWindow::CheckDrafts(const StepUnderWay& step, const v1::StepResult& result,
                                     int64_t vocab_size) {
  if (result.drafted().empty()) return absl::OkStatus();
  absl::InlinedVector<Asked, kGuessingSequencesMax> asked;
  int sampled = 0;
  for (const StepEntry& entry : step.entries) {
    const uint64_t id = entry.sequence.value();
    int32_t tokens = 0;
    for (; sampled < result.sampled_size() && result.sampled(sampled).sequence() == id; ++sampled) {
      ++tokens;
    }
    if (entry.drafts == 0) continue;
    asked.push_back({id, entry.drafts, tokens > 0 ? entry.end + tokens : 0});
  }
  for (const v1::DraftedTokens& drafted : result.drafted()) {
    const std::string where =
        absl::StrCat("step ", result.step(), ", drafts of sequence ", drafted.sequence());
    const auto found = std::find_if(asked.begin(), asked.end(), [&](const Asked& one) {
      return one.sequence == drafted.sequence();
    });
    if (found == asked.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat(where, ": it was not asked for any, or has them twice"));
    }
    TUTTI_RETURN_IF_ERROR(Annotate(CheckDrafted(drafted, *found, vocab_size), where));
    asked.erase(found);
  }
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
