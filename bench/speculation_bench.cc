#include "bench/speculation_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/steps/prompt_lookup.h"
#include "coordinator/steps/scheduler.h"
#include "kernels/backend.h"
#include "kernels/tunable.h"
#include "model/config_json.h"
#include "nlohmann/json.hpp"
#include "text/tokenizer.h"
#include "worker/batch.h"
#include "worker/kernel_tuner.h"
#include "worker/sequence_table.h"
#include "worker/transformer.h"

namespace tutti::bench {
namespace {

constexpr int32_t kBlockTokens = 16;
constexpr int32_t kBatchTokens = 512;

struct Script {
  std::string name;
  std::vector<TokenId> prompt, answer;
  int32_t tokens() const { return static_cast<int32_t>(prompt.size() + answer.size()); }
};

absl::StatusOr<std::vector<Script>> ReadScripts(const SpeculationBenchOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::Load(options.model));
  std::ifstream in(options.script);
  if (!in) return absl::NotFoundError(absl::StrCat(options.script, " cannot be read"));
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
    Script script{.name = text("name"), .prompt = {}, .answer = {}};
    TUTTI_ASSIGN_OR_RETURN(script.prompt, tokenizer->Encode(text("prompt")));
    TUTTI_ASSIGN_OR_RETURN(script.answer, tokenizer->Encode(text("answer")));
    if (script.prompt.empty() || script.answer.size() < 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          options.script, ", line ", number,
          R"(: is no {"name": …, "prompt": TEXT, "answer": TEXT} with two tokens to answer)"));
    }
    scripts.push_back(std::move(script));
  }
  if (scripts.empty()) return absl::InvalidArgumentError(absl::StrCat(options.script, " is empty"));
  return scripts;
}

// The answer's tokens that lookup and pace guess right, were there time for all, and all guesses.
std::pair<int64_t, int64_t> CountOffline(const Script& script) {
  coordinator::PromptLookup lookup(coordinator::kLookupTokensOfAll);
  coordinator::Sequence sequence;
  sequence.request.id = RequestId(1);
  sequence.tokens = script.prompt;
  sequence.tokens.push_back(script.answer[0]);
  const auto size = static_cast<int32_t>(script.answer.size());
  int64_t right = 0;
  int64_t guessed = 0;
  for (int32_t have = 1; have < size;) {
    const int32_t most = std::min(size - have - 1, coordinator::kGuessesMax);
    const int32_t wanted = most <= 0 ? 0 : std::min(most, sequence.guess_pace.Next());
    std::vector<TokenId> guesses;
    if (wanted > 0) lookup.Guess(sequence, wanted, &guesses);
    const auto count = static_cast<int32_t>(guesses.size());
    int32_t equal = 0;
    while (equal < count && guesses[equal] == script.answer[have + equal]) ++equal;
    if (count > 0) sequence.guess_pace.OnVerified(count, equal);
    right += equal;
    guessed += count;
    for (const int32_t end = have + equal + 1; have < end; ++have) {
      sequence.tokens.push_back(script.answer[have]);
    }
  }
  return {right, guessed};
}

struct Round {
  double seconds = 0;  // of steps that had no row of a prompt
  int64_t tokens = 0;  // that these brought
  int64_t steps = 0;
  coordinator::Scheduler::Guessed guessed;
};

class Bench {
 public:
  explicit Bench(const SpeculationBenchOptions& options) : options_(options) {}

  absl::Status Load(int32_t longest) {
    TUTTI_ASSIGN_OR_RETURN(config_, model::LoadModelConfig(options_.model));
    TUTTI_ASSIGN_OR_RETURN(backend_,
                           kernels::CreateBackend("cpu", {.num_threads = options_.threads}));
    if (backend_->tunable() != nullptr) worker::TuneAtStart(backend_.get(), config_.dtype, "");
    blocks_ = options_.streams * ((longest + kBlockTokens) / kBlockTokens + 1);
    v1::AssignShard shard;
    shard.set_num_stages(1);
    shard.set_num_ranks(1);
    shard.set_num_layers(static_cast<int32_t>(config_.num_layers));
    shard.set_has_embedding(true);
    shard.set_has_head(true);
    shard.set_block_size(kBlockTokens);
    shard.set_num_blocks(blocks_);
    shard.set_max_batch_tokens(kBatchTokens);
    shard.set_max_sequences(std::max(options_.streams, 64));
    shard.set_max_model_len(longest + 1);
    const auto factory = worker::MakeTransformerFactory(
        {.dir = options_.model, .config = config_, .backend = backend_.get()});
    TUTTI_ASSIGN_OR_RETURN(runner_, factory(shard, [](int64_t, int64_t) {}));
    auto* const transformer = static_cast<worker::Transformer*>(runner_.get());
    transformer->set_token_observer(
        [this](std::span<const worker::SampleRow> rows, std::span<v1::SampledToken> drawn) {
          for (size_t i = 0; i < rows.size(); ++i) {
            const size_t place = rows[i].sequence->tokens.size() - script_->prompt.size();
            drawn[i].set_token(script_->answer[place]);
          }
        });
    return absl::OkStatus();
  }

  absl::StatusOr<Round> Run(const Script& script, bool guesses) {
    script_ = &script;
    placement::StagePlacement stage;
    stage.ranks.emplace_back();
    coordinator::StepTimes times({stage});
    coordinator::PromptLookup lookup(coordinator::kLookupTokensOfAll);
    coordinator::Scheduler scheduler({.block_size = kBlockTokens,
                                      .max_batch_tokens = kBatchTokens,
                                      .max_sequences = options_.streams,
                                      .guesses_max = guesses ? coordinator::kGuessesMax : 0});
    scheduler.GuessBy(&lookup);
    if (!options_.any_time) scheduler.TimeBy(&times);
    scheduler.BeginEpoch(1, blocks_);
    worker::SequenceTable table({.vocab_size = static_cast<int32_t>(config_.vocab_size),
                                 .block_size = kBlockTokens,
                                 .num_blocks = blocks_,
                                 .max_batch_tokens = kBatchTokens,
                                 .max_step_sequences = options_.streams,
                                 .max_known_sequences = 2 * options_.streams,
                                 .max_model_len = script.tokens() + 1});
    std::vector<std::unique_ptr<coordinator::Sequence>> sequences;
    for (int i = 1; i <= options_.streams; ++i) {
      auto& sequence = sequences.emplace_back(std::make_unique<coordinator::Sequence>());
      sequence->request.id = RequestId(static_cast<uint64_t>(i));
      sequence->request.max_tokens = static_cast<int32_t>(script.answer.size());
      sequence->arrival = static_cast<uint64_t>(i);
      sequence->tokens = script.prompt;
      sequence->prompt_tokens = static_cast<int32_t>(script.prompt.size());
      scheduler.Enqueue(sequence.get());
    }
    Round round;
    while (scheduler.running() + scheduler.waiting() > 0) {
      TUTTI_RETURN_IF_ERROR(Step(&scheduler, &table, &times, &round));
    }
    round.guessed = scheduler.guessed();
    return round;
  }

 private:
  absl::Status Step(coordinator::Scheduler* scheduler, worker::SequenceTable* table,
                    coordinator::StepTimes* times, Round* round) {
    v1::StepPlan plan;
    CHECK(scheduler->Plan(Instant(), &plan));
    const auto begin = std::chrono::steady_clock::now();
    TUTTI_RETURN_IF_ERROR(table->Apply(plan));
    worker::BuildBatch(plan, table, &batch_);
    sampled_.clear();
    TUTTI_RETURN_IF_ERROR(runner_->Run(batch_, {}, {}, &sampled_, [] {}));
    const double seconds = Seconds(std::chrono::steady_clock::now() - begin);
    coordinator::LoadSum load;
    bool prompts = false;
    for (const v1::ScheduledSequence& one : plan.scheduled()) {
      load.Add(one.first(), one.count(), one.sample() ? 1 + one.guesses_size() : 0);
      prompts |= one.first() < static_cast<int32_t>(script_->prompt.size());
    }
    times->OnStep(0, load.load(), seconds);
    v1::StepResult result;
    result.set_step(plan.step());
    for (v1::SampledToken& token : sampled_) {
      if (token.token() != worker::kTokenNotDrawn) result.add_sampled()->Swap(&token);
    }
    TUTTI_RETURN_IF_ERROR(scheduler->steps().Check(result, config_.vocab_size));
    TUTTI_RETURN_IF_ERROR(CheckTaken(plan, result));
    std::vector<coordinator::Scheduler::Sampled> committed;
    scheduler->Commit(&result, &committed);
    if (!prompts) {
      round->seconds += seconds;
      round->tokens += static_cast<int64_t>(committed.size());
      ++round->steps;
    }
    for (const auto& one : committed) {
      if (one.index + 1 == one.sequence->request.max_tokens) scheduler->Remove(one.sequence);
    }
    return absl::OkStatus();
  }

  // As many tokens as guesses equal the script, and one.
  absl::Status CheckTaken(const v1::StepPlan& plan, const v1::StepResult& result) const {
    int64_t due = 0;
    for (const v1::ScheduledSequence& one : plan.scheduled()) {
      if (!one.sample()) continue;
      const auto have = static_cast<size_t>(one.expected_tokens()) - script_->prompt.size();
      size_t equal = 0;
      while (equal < static_cast<size_t>(one.guesses_size()) &&
             one.guesses(static_cast<int>(equal)) == script_->answer[have + equal]) {
        ++equal;
      }
      due += static_cast<int64_t>(equal) + 1;
    }
    if (due == result.sampled_size()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("step ", plan.step(), " brought ",
                                            result.sampled_size(), " tokens, by the script ", due));
  }

  const SpeculationBenchOptions options_;
  model::ModelConfig config_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<worker::StageRunner> runner_;
  int32_t blocks_ = 0;
  const Script* script_ = nullptr;
  worker::Batch batch_;
  std::vector<v1::SampledToken> sampled_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Measure(const SpeculationBenchOptions& options, const Script& script, Bench* bench) {
  std::vector<double> without, with, ratios;
  Round last;
  for (int round = 0; round < options.rounds; ++round) {
    double rate[2] = {};
    // Each comes first in turn.
    for (int turn = 0; turn < 2; ++turn) {
      const bool guesses = (turn + round) % 2 == 1;
      TUTTI_ASSIGN_OR_RETURN(const Round one, bench->Run(script, guesses));
      rate[guesses ? 1 : 0] = static_cast<double>(one.tokens) / one.seconds;
      if (guesses) last = one;
    }
    without.push_back(rate[0]);
    with.push_back(rate[1]);
    ratios.push_back(rate[1] / rate[0]);
  }
  int64_t right = 0;
  for (const uint64_t count : last.guessed.right) right += static_cast<int64_t>(count);
  const auto [offline_right, offline_guessed] = CountOffline(script);
  std::printf(
      "%-12s %5zu + %5zu tokens, %d streams: %7.1f tokens/s without, %7.1f with, ratio %.2f (%.2f "
      "to %.2f); %.2f tokens a step, %lld of %llu guesses right (by the text alone %lld of %lld)\n",
      script.name.c_str(), script.prompt.size(), script.answer.size(), options.streams,
      Median(without), Median(with), Median(ratios),
      *std::min_element(ratios.begin(), ratios.end()),
      *std::max_element(ratios.begin(), ratios.end()),
      static_cast<double>(last.tokens) / static_cast<double>(last.steps * options.streams),
      static_cast<long long>(right), static_cast<unsigned long long>(last.guessed.tokens),
      static_cast<long long>(offline_right * options.streams),
      static_cast<long long>(offline_guessed * options.streams));
  if (options.any_time && right != offline_right * options.streams) {
    return absl::InternalError("what was right is not what the text says");
  }
  return absl::OkStatus();
}

absl::Status Run(const SpeculationBenchOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Script> scripts, ReadScripts(options));
  int32_t longest = 0;
  for (const Script& script : scripts) longest = std::max(longest, script.tokens());
  Bench bench(options);
  TUTTI_RETURN_IF_ERROR(bench.Load(longest));
  for (const Script& script : scripts) {
    TUTTI_RETURN_IF_ERROR(Annotate(Measure(options, script, &bench), script.name));
  }
  return absl::OkStatus();
}

}  // namespace

int RunSpeculationBench(const SpeculationBenchOptions& options) {
  const absl::Status status = Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "tutti-bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace tutti::bench
