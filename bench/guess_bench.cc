// What guessing costs the engine in a step. One question to the prompt lookup, for a text that is
// indexed already and has grown by a token, in texts where nothing is found, where much is, and
// where every place looks alike; the same of finished answers, all questions of a step together;
// and a whole plan, with guesses and without.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "coordinator/limits.h"
#include "coordinator/sequence.h"
#include "coordinator/steps/finished_answers.h"
#include "coordinator/steps/prompt_lookup.h"
#include "coordinator/steps/scheduler.h"

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

// A question alone in its step.
void Ask(const coordinator::Sequence& sequence, int32_t most, coordinator::PromptLookup* lookup,
         std::vector<TokenId>* guesses) {
  guesses->clear();
  lookup->BeginStep();
  lookup->Guess(sequence, most, guesses);
}

void OneMoreToken(benchmark::State& state) {
  const int64_t tokens = state.range(0);
  const int64_t vocabulary = state.range(1);
  coordinator::Sequence sequence = TextOf(tokens, vocabulary);
  coordinator::PromptLookup lookup(coordinator::kLookupBytesOfAll);
  std::vector<TokenId> guesses;
  while (lookup.tokens() < tokens) Ask(sequence, 1, &lookup, &guesses);
  Random random(8);
  for (auto _ : state) {
    sequence.tokens.push_back(static_cast<TokenId>(random.Between(0, vocabulary - 1)));
    Ask(sequence, coordinator::kGuessesMax, &lookup, &guesses);
    benchmark::DoNotOptimize(guesses.data());
    if (sequence.total() < coordinator::kLookupTokensMax) continue;
    state.PauseTiming();
    lookup.Forget(sequence);
    sequence = TextOf(tokens, vocabulary);
    while (lookup.tokens() < tokens) Ask(sequence, 1, &lookup, &guesses);
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
    coordinator::PromptLookup lookup(coordinator::kLookupBytesOfAll);
    while (lookup.tokens() < sequence.total()) {
      Ask(sequence, 1, &lookup, &guesses);
      ++questions;
    }
  }
  state.SetItemsProcessed(questions);
}
BENCHMARK(FirstQuestions)->ArgName("tokens")->Arg(2000)->Arg(100'000);

// So many sequences ask for what follows, in a step that indexes as much as it may, where their
// owner's answers are as many as are kept. Vocabulary 2: no place has more than three equal tokens
// before it, and all look alike. `cold`: other work has driven the answers out of the caches.
void AnswersInStep(benchmark::State& state) {
  const int64_t sequences = state.range(0);
  const int64_t vocabulary = state.range(1);
  coordinator::FinishedAnswers answers;
  coordinator::Sequence kept = TextOf(coordinator::kAnswerTokensMax, vocabulary);
  kept.request.owner = {1, 1};
  if (vocabulary == 2) {
    for (size_t i = 0; i < kept.tokens.size(); i += 4) kept.tokens[i] = static_cast<TokenId>(i + 2);
    for (size_t i = 0; i < kept.tokens.size(); ++i) {
      if (i % 4 != 0) kept.tokens[i] = 1;
    }
  }
  for (int i = 0; i < 8; ++i) answers.Keep(kept);
  while (answers.unindexed() > 0) answers.BeginStep();
  std::vector<coordinator::Sequence> asking;
  Random random(8);
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t size = random.Between(100, kept.total());
    asking.push_back(kept);
    asking.back().tokens.resize(static_cast<size_t>(size));
    if (vocabulary == 2) asking.back().tokens.insert(asking.back().tokens.end(), {0, 1, 1, 1});
  }
  std::vector<std::byte> others(state.range(2) != 0 ? size_t{64} << 20 : 1);
  std::vector<TokenId> guesses;
  int64_t sum = 0;
  for (auto _ : state) {
    if (answers.unindexed() == 0) answers.Keep(kept);
    for (size_t i = 0; i < others.size(); i += 64) others[i] ^= std::byte{1};
    for (const coordinator::Sequence& sequence : asking) {
      sum += sequence.tokens[sequence.tokens.size() - 32] + sequence.tokens.back();
    }
    guesses.clear();
    const auto begin = std::chrono::steady_clock::now();
    answers.BeginStep();
    for (const coordinator::Sequence& sequence : asking) {
      answers.Guess(sequence, coordinator::kGuessesMax, &guesses);
    }
    state.SetIterationTime(Seconds(std::chrono::steady_clock::now() - begin));
  }
  benchmark::DoNotOptimize(sum);
  state.counters["guesses"] = static_cast<double>(guesses.size());
}
BENCHMARK(AnswersInStep)
    ->ArgNames({"sequences", "vocabulary", "cold"})
    ->ArgsProduct({{1, 32}, {1, 2, 8, 100'000}, {0, 1}})
    ->Iterations(500)
    ->UseManualTime();

// An answer of so many tokens ends.
void KeepAnswer(benchmark::State& state) {
  coordinator::FinishedAnswers answers;
  coordinator::Sequence kept = TextOf(state.range(0), 100'000);
  kept.request.owner = {1, 1};
  for (auto _ : state) {
    answers.Keep(kept);
    state.PauseTiming();
    while (answers.unindexed() > 0) answers.BeginStep();
    state.ResumeTiming();
  }
}
BENCHMARK(KeepAnswer)->ArgName("tokens")->Arg(250)->Arg(8192)->Iterations(5000);

placement::StagePlacement UnknownStage() {
  placement::StagePlacement stage;
  stage.ranks.emplace_back();
  return stage;
}

// A plan of so many sequences that generate, whose texts say again what they said; some of what is
// guessed is right.
void OnePlan(benchmark::State& state) {
  const int64_t sequences = state.range(0);
  const bool guesses = state.range(1) != 0;
  coordinator::StepTimes times(std::vector(static_cast<size_t>(state.range(2)), UnknownStage()));
  coordinator::PromptLookup lookup(coordinator::kLookupBytesOfAll);
  coordinator::Scheduler scheduler({.max_batch_tokens = 8192,
                                    .guesses_max = guesses ? coordinator::kGuessesMax : 0,
                                    .guesses_stretch = 1});
  scheduler.GuessBy(&lookup);
  scheduler.TimeBy(&times);
  scheduler.BeginEpoch(static_cast<int32_t>(state.range(2)), 1 << 17);
  std::vector<std::unique_ptr<coordinator::Sequence>> all;
  for (int64_t i = 0; i < sequences; ++i) {
    auto& one = all.emplace_back(std::make_unique<coordinator::Sequence>(TextOf(2000, 8)));
    one->request.id = RequestId(static_cast<uint64_t>(i + 1));
    one->request.max_tokens = 1 << 20;
    one->prompt_tokens = one->total();
    one->arrival = static_cast<uint64_t>(i + 1);
    scheduler.Enqueue(one.get());
  }
  Random random(9);
  int64_t rows = 0;
  int64_t plans = 0;
  for (auto _ : state) {
    v1::StepPlan plan;
    const auto begin = std::chrono::steady_clock::now();
    CHECK(scheduler.Plan(Instant(), &plan));
    state.SetIterationTime(Seconds(std::chrono::steady_clock::now() - begin));
    rows += plan.total_rows();
    ++plans;
    coordinator::LoadSum load;
    v1::StepResult result;
    result.set_step(plan.step());
    for (const v1::ScheduledSequence& one : plan.scheduled()) {
      load.Add(one.first(), one.count(), one.sample() ? 1 + one.guesses_size() : 0);
      for (int place = 0; one.sample(); ++place) {
        const bool right = place < one.guesses_size() && random.Chance(0.7);
        v1::SampledToken* const token = result.add_sampled();
        token->set_sequence(one.sequence());
        token->set_position(one.expected_tokens() + place);
        // A wrong one is any other.
        const TokenId guess = place < one.guesses_size() ? one.guesses(place) : 0;
        token->set_token(right ? guess : (guess + 1) % 8);
        if (!right) break;
      }
    }
    for (int stage = 0; stage < state.range(2); ++stage) times.OnStep(stage, load.load(), 0.01);
    std::vector<coordinator::Scheduler::Sampled> committed;
    scheduler.Commit(&result, &committed);
  }
  state.counters["rows"] = static_cast<double>(rows) / static_cast<double>(plans);
  for (const auto& one : all) scheduler.Remove(one.get());
}
BENCHMARK(OnePlan)
    ->ArgNames({"sequences", "guesses", "stages"})
    ->ArgsProduct({{1, 8, 32}, {0, 1}, {1, 8}})
    ->Iterations(2000)
    ->UseManualTime();

}  // namespace
}  // namespace tutti::bench

BENCHMARK_MAIN();
