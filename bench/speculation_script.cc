#include "bench/speculation_script.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "coordinator/sequence.h"
#include "coordinator/steps/guess_sources.h"
#include "coordinator/steps/prompt_lookup.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer.h"

namespace tutti::bench {

absl::StatusOr<std::vector<Script>> ReadScripts(const std::string& file, const std::string& model,
                                                int32_t answer_tokens_max) {
  TUTTI_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::Load(model));
  std::ifstream in(file);
  if (!in) return absl::NotFoundError(absl::StrCat(file, " cannot be read"));
  std::vector<Script> scripts;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto text = [&](const char* key) {
      return json.is_object() && json.contains(key) && json[key].is_string()
                 ? json[key].get<std::string>()
                 : std::string();
    };
    Script script{.name = text("name"), .prompt = {}, .answer = {}, .before = {}};
    TUTTI_ASSIGN_OR_RETURN(script.prompt, tokenizer->Encode(text("prompt")));
    TUTTI_ASSIGN_OR_RETURN(script.answer, tokenizer->Encode(text("answer")));
    TUTTI_ASSIGN_OR_RETURN(script.before, tokenizer->Encode(text("before")));
    const auto most = static_cast<size_t>(answer_tokens_max);
    if (most > 0 && script.answer.size() > most) script.answer.resize(most);
    if (script.prompt.empty() || script.answer.size() < 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          file, ", line ", number,
          R"(: is no {"name": …, "prompt": TEXT, "answer": TEXT} with two tokens to answer)"));
    }
    scripts.push_back(std::move(script));
  }
  if (scripts.empty()) return absl::InvalidArgumentError(absl::StrCat(file, " is empty"));
  return scripts;
}

void KeepBefore(const Script& script, coordinator::FinishedAnswers* answers) {
  coordinator::Sequence before;
  before.request.owner = kScriptOwner;
  before.tokens = script.before;
  answers->Keep(before);
  while (answers->unindexed() > 0) answers->BeginStep();
}

std::pair<int64_t, int64_t> CountOffline(const Script& script) {
  coordinator::PromptLookup lookup(coordinator::kLookupBytesOfAll);
  coordinator::FinishedAnswers answers;
  KeepBefore(script, &answers);
  coordinator::GuessSources sources;
  sources.Use(coordinator::GuessOrigin::kText, &lookup);
  sources.Use(coordinator::GuessOrigin::kAnswers, &answers);
  coordinator::Sequence sequence;
  sequence.request.id = RequestId(1);
  sequence.request.owner = kScriptOwner;
  sequence.tokens = script.prompt;
  sequence.tokens.push_back(script.answer[0]);
  const auto size = static_cast<int32_t>(script.answer.size());
  int64_t right = 0;
  int64_t guessed = 0;
  for (int32_t have = 1; have < size;) {
    const int32_t most = std::max(0, std::min(size - have - 1, coordinator::kGuessesMax));
    std::vector<TokenId> guesses;
    sources.BeginStep();
    const auto found = sources.Guess(&sequence, {most, most, 0}, &guesses);
    const auto count = static_cast<int32_t>(guesses.size());
    int32_t equal = 0;
    while (equal < count && guesses[equal] == script.answer[have + equal]) ++equal;
    if (found.has_value()) sequence.PaceOf(found->origin).OnVerified(count, equal);
    right += equal;
    guessed += count;
    for (const int32_t end = have + equal + 1; have < end; ++have) {
      sequence.tokens.push_back(script.answer[have]);
    }
  }
  return {right, guessed};
}

}  // namespace tutti::bench
