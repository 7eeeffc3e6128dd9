// Answers that are known beforehand, as `tutti-bench speculation` reads them, and what is guessed
// of them by their text alone.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "coordinator/steps/finished_answers.h"

namespace tutti::bench {

struct Script {
  std::string name;
  std::vector<TokenId> prompt, answer;
  std::vector<TokenId> before;  // an answer of the same owner that has ended; empty: none has
  int32_t tokens() const { return static_cast<int32_t>(prompt.size() + answer.size()); }
};

// A JSON object in each line of the file: {"name": …, "prompt": TEXT, "answer": TEXT}, and perhaps
// "before": TEXT, by the tokenizer of the model in that folder; answers are cut to so many tokens
// (0: none is).
absl::StatusOr<std::vector<Script>> ReadScripts(const std::string& file, const std::string& model,
                                                int32_t answer_tokens_max);

// The owner of all answers.
inline constexpr Hash128 kScriptOwner = {1, 1};
// Keeps the answer before, if there is one.
void KeepBefore(const Script& script, coordinator::FinishedAnswers* answers);

// The answer's tokens that are guessed right by lookup, the answer before and their paces, were
// there time for all, and all guesses.
std::pair<int64_t, int64_t> CountOffline(const Script& script);

}  // namespace tutti::bench
