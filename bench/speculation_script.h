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
#include "base/status.h"

namespace tutti::bench {

struct Script {
  std::string name;
  std::vector<TokenId> prompt, answer;
  int32_t tokens() const { return static_cast<int32_t>(prompt.size() + answer.size()); }
};

// A JSON object in each line of the file: {"name": …, "prompt": TEXT, "answer": TEXT}, by the
// tokenizer of the model in that folder; answers are cut to so many tokens (0: none is).
absl::StatusOr<std::vector<Script>> ReadScripts(const std::string& file, const std::string& model,
                                                int32_t answer_tokens_max);

// The answer's tokens that lookup and pace guess right, were there time for all, and all guesses.
std::pair<int64_t, int64_t> CountOffline(const Script& script);

}  // namespace tutti::bench
