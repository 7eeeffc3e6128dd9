// What guessing costs the engine in a step: one question to the prompt lookup for a text that is
// indexed already and has grown by a token, in texts where nothing is found, where much is, and
// where every place looks alike.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "coordinator/limits.h"
#include "coordinator/sequence.h"
#include "coordinator/steps/prompt_lookup.h"

namespace tutti::bench {
namespace {

// Tokens drawn from so many: 100,000 hardly ever stand together twice, 8 do all the time.
coordinator::Sequence TextOf(int64_t tokens, int64_t vocabulary) {
  coordinator::Sequence sequence;
  sequence.request.id = RequestId(1);
  Random random(7);
  for (int64_t i = 0; i < tokens; ++i) {
    sequence.tokens.push_back(static_cast<TokenId>(random.Between(0, vocabulary - 1)));
  }
  return sequence;
}

void OneMoreToken(benchmark::State& state) {
  const int64_t tokens = state.range(0);
  const int64_t vocabulary = state.range(1);
  coordinator::Sequence sequence = TextOf(tokens, vocabulary);
  coordinator::PromptLookup lookup(coordinator::kLookupTokensOfAll);
  std::vector<TokenId> guesses;
  while (lookup.tokens() < tokens) lookup.Guess(sequence, 1, &guesses);
  Random random(8);
  for (auto _ : state) {
    guesses.clear();
    sequence.tokens.push_back(static_cast<TokenId>(random.Between(0, vocabulary - 1)));
    lookup.Guess(sequence, coordinator::kGuessesMax, &guesses);
    benchmark::DoNotOptimize(guesses.data());
    if (sequence.total() < coordinator::kLookupTokensMax) continue;
    state.PauseTiming();
    lookup.Forget(sequence);
    sequence = TextOf(tokens, vocabulary);
    while (lookup.tokens() < tokens) lookup.Guess(sequence, 1, &guesses);
    state.ResumeTiming();
  }
}
BENCHMARK(OneMoreToken)
    ->ArgNames({"tokens", "vocabulary"})
    ->ArgsProduct({{1000, 10'000, 100'000}, {1, 8, 100'000}});

// The first questions for a long prompt, each of which indexes a part of it.
void FirstQuestions(benchmark::State& state) {
  const coordinator::Sequence sequence = TextOf(state.range(0), 100'000);
  std::vector<TokenId> guesses;
  int64_t questions = 0;
  for (auto _ : state) {
    coordinator::PromptLookup lookup(coordinator::kLookupTokensOfAll);
    while (lookup.tokens() < sequence.total()) {
      lookup.Guess(sequence, 1, &guesses);
      ++questions;
    }
  }
  state.SetItemsProcessed(questions);
}
BENCHMARK(FirstQuestions)->ArgName("tokens")->Arg(2000)->Arg(100'000);

}  // namespace
}  // namespace tutti::bench

BENCHMARK_MAIN();
