#include "bench/speculation_bench.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "bench/speculation_script.h"
#include "coordinator/limits.h"
#include "coordinator/steps/prompt_lookup.h"
#include "coordinator/steps/scheduler.h"
#include "kernels/backend.h"
#include "kernels/tunable.h"
#include "model/config_json.h"
#include "worker/batch.h"
#include "worker/kernel_tuner.h"
#include "worker/sequence_table.h"
#include "worker/transformer.h"

namespace tutti::bench {
namespace {

constexpr int32_t kBlockTokens = 16;
constexpr int32_t kBatchTokens = 512;

struct Round {
  double seconds = 0;  // from the end of the last prompt on
  int64_t tokens = 0;  // that came in it
  int64_t turns = 0;   // rows of last tokens, over its steps
  coordinator::Scheduler::Guessed guessed;
  // Between tokens of those without guesses while others have some; the earliest first.
  std::vector<double> gaps;
};

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return Seconds(std::chrono::steady_clock::now() - begin);
}

class Bench {
 public:
  explicit Bench(const SpeculationBenchOptions& options)
      : options_(options), stages_(static_cast<size_t>(options.stages)) {}

  absl::Status Load(int32_t longest) {
    TUTTI_ASSIGN_OR_RETURN(config_, model::LoadModelConfig(options_.model));
    if (options_.stages > config_.num_layers) {
      return absl::InvalidArgumentError(
          absl::StrCat("--stages ", options_.stages, ": ", config_.num_layers, " layers"));
    }
    TUTTI_ASSIGN_OR_RETURN(backend_,
                           kernels::CreateBackend("cpu", {.num_threads = options_.threads}));
    if (backend_->tunable() != nullptr) worker::TuneAtStart(backend_.get(), config_.dtype, "");
    blocks_ = all_streams() * ((longest + kBlockTokens) / kBlockTokens + 1);
    const auto factory = worker::MakeTransformerFactory(
        {.dir = options_.model, .config = config_, .backend = backend_.get()});
    for (int32_t stage = 0; stage < options_.stages; ++stage) {
      TUTTI_ASSIGN_OR_RETURN(stages_[stage].runner,
                             factory(ShardOf(stage, longest), [](int64_t, int64_t) {}));
    }
    rows_.resize(kBatchTokens * stages_[0].runner->activation_row_bytes());
    static_cast<worker::Transformer*>(stages_.back().runner.get())
        ->set_token_observer(
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
    now_ = 0;
    placement::StagePlacement unknown;
    unknown.ranks.emplace_back();
    coordinator::StepTimes times(std::vector(stages_.size(), unknown));
    coordinator::PromptLookup lookup(coordinator::kLookupBytesOfAll);
    coordinator::Scheduler scheduler({.block_size = kBlockTokens,
                                      .max_batch_tokens = kBatchTokens,
                                      .max_sequences = all_streams(),
                                      .guesses_max = guesses ? coordinator::kGuessesMax : 0});
    coordinator::FinishedAnswers answers;
    KeepBefore(script, &answers);
    scheduler.GuessBy(&lookup);
    scheduler.GuessBy(&answers, coordinator::GuessOrigin::kAnswers);
    if (!options_.any_time) scheduler.TimeBy(&times);
    scheduler.BeginEpoch(options_.stages, blocks_);
    MakeTables(script);
    const auto sequences = MakeSequences(script);
    for (const auto& sequence : sequences) scheduler.Enqueue(sequence.get());
    Round round;
    double begin = 0;
    told_at_.assign(sequences.size() + 1, 0);
    std::deque<UnderWay> steps;
    while (scheduler.running() + scheduler.waiting() > 0) {
      TUTTI_RETURN_IF_ERROR(PlanAll(&scheduler, &steps));
      CHECK(!steps.empty());
      const bool guessing = IsGuessing(sequences);
      TUTTI_ASSIGN_OR_RETURN(const int64_t tokens, Commit(&steps.front(), &times, &scheduler));
      round.tokens += tokens;
      if (guessing) round.gaps.insert(round.gaps.end(), gaps_.begin(), gaps_.end());
      round.turns += steps.front().plan.scheduled_size();
      if (steps.front().prompts) {
        begin = now_;
        round.tokens = round.turns = 0;
        round.gaps.clear();
      }
      steps.pop_front();
    }
    round.seconds = now_ - begin;
    round.guessed = scheduler.guessed();
    return round;
  }

 private:
  using Sequences = std::vector<std::unique_ptr<coordinator::Sequence>>;

  struct Stage {
    std::unique_ptr<worker::StageRunner> runner;
    std::unique_ptr<worker::SequenceTable> table;
    worker::Batch batch;
    double free_at = 0;
  };
  struct UnderWay {
    v1::StepPlan plan;
    v1::StepResult result;
    placement::StepLoad load;
    std::vector<double> seconds;  // of each stage
    double ends = 0;
    bool prompts = false;
  };

  int all_streams() const { return options_.streams + options_.beside; }

  // Whether one that may have guesses still runs.
  bool IsGuessing(const Sequences& sequences) const {
    return std::any_of(sequences.begin(), sequences.begin() + options_.streams,
                       [](const auto& one) { return one->stay.id != SequenceId(); });
  }

  void MakeTables(const Script& script) {
    for (Stage& stage : stages_) {
      stage.free_at = 0;
      stage.table = std::make_unique<worker::SequenceTable>(
          worker::SequenceLimits{.vocab_size = static_cast<int32_t>(config_.vocab_size),
                                 .block_size = kBlockTokens,
                                 .num_blocks = blocks_,
                                 .max_batch_tokens = kBatchTokens,
                                 .max_step_sequences = all_streams(),
                                 .max_known_sequences = 2 * all_streams(),
                                 .max_model_len = script.tokens() + 1});
    }
  }

  Sequences MakeSequences(const Script& script) const {
    Sequences sequences;
    for (int i = 1; i <= all_streams(); ++i) {
      auto& sequence = sequences.emplace_back(std::make_unique<coordinator::Sequence>());
      sequence->request.id = RequestId(static_cast<uint64_t>(i));
      sequence->request.owner = kScriptOwner;
      sequence->request.max_tokens = static_cast<int32_t>(script.answer.size());
      if (i > options_.streams) sequence->request.guesses_max = 0;
      sequence->arrival = static_cast<uint64_t>(i);
      sequence->tokens = script.prompt;
      sequence->prompt_tokens = static_cast<int32_t>(script.prompt.size());
    }
    return sequences;
  }

  v1::AssignShard ShardOf(int32_t stage, int32_t longest) const {
    const auto layers = static_cast<int32_t>(config_.num_layers);
    const int32_t first = layers * stage / options_.stages;
    v1::AssignShard shard;
    shard.set_stage(stage);
    shard.set_num_stages(options_.stages);
    shard.set_num_ranks(1);
    shard.set_first_layer(first);
    shard.set_num_layers(layers * (stage + 1) / options_.stages - first);
    shard.set_has_embedding(stage == 0);
    shard.set_has_head(stage + 1 == options_.stages);
    shard.set_block_size(kBlockTokens);
    shard.set_num_blocks(blocks_);
    shard.set_max_batch_tokens(kBatchTokens);
    shard.set_max_sequences(std::max(all_streams(), 64));
    shard.set_max_model_len(longest + 1);
    return shard;
  }

  // What can be planned now is computed, though it ends later.
  absl::Status PlanAll(coordinator::Scheduler* scheduler, std::deque<UnderWay>* steps) {
    while (true) {
      UnderWay step;
      const auto begin = std::chrono::steady_clock::now();
      if (!scheduler->Plan(Instant(), &step.plan)) return absl::OkStatus();
      now_ += SecondsSince(begin);
      TUTTI_RETURN_IF_ERROR(Compute(&step));
      steps->push_back(std::move(step));
    }
  }

  absl::Status Compute(UnderWay* step) {
    step->ends = now_;
    const size_t bytes = static_cast<size_t>(step->plan.total_rows()) *
                         static_cast<size_t>(stages_[0].runner->activation_row_bytes());
    const std::span<std::byte> rows = std::span(rows_).first(bytes);
    sampled_.clear();
    for (Stage& stage : stages_) {
      const bool first = &stage == &stages_.front();
      const bool last = &stage == &stages_.back();
      const auto begin = std::chrono::steady_clock::now();
      TUTTI_RETURN_IF_ERROR(stage.table->Apply(step->plan));
      worker::BuildBatch(step->plan, stage.table.get(), &stage.batch);
      TUTTI_RETURN_IF_ERROR(
          stage.runner->Run(stage.batch, first ? std::span<const std::byte>() : rows,
                            last ? std::span<std::byte>() : rows, &sampled_, [] {}));
      step->seconds.push_back(SecondsSince(begin));
      stage.free_at = step->ends = std::max(step->ends, stage.free_at) + step->seconds.back();
    }
    coordinator::LoadSum load;
    for (const v1::ScheduledSequence& one : step->plan.scheduled()) {
      load.Add(one.first(), one.count(), one.sample() ? 1 + one.guesses_size() : 0);
      step->prompts |= one.first() < static_cast<int32_t>(script_->prompt.size());
    }
    step->load = load.load();
    step->result.set_step(step->plan.step());
    for (v1::SampledToken& token : sampled_) {
      if (token.token() != worker::kTokenNotDrawn) step->result.add_sampled()->Swap(&token);
    }
    return absl::OkStatus();
  }

  // The step ends; its tokens.
  absl::StatusOr<int64_t> Commit(UnderWay* step, coordinator::StepTimes* times,
                                 coordinator::Scheduler* scheduler) {
    now_ = std::max(now_, step->ends);
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      times->OnStep(static_cast<int32_t>(stage), step->load, step->seconds[stage]);
    }
    TUTTI_RETURN_IF_ERROR(scheduler->steps().Check(step->result, config_.vocab_size));
    TUTTI_RETURN_IF_ERROR(CheckTaken(step->plan, step->result));
    std::vector<coordinator::Scheduler::Sampled> committed;
    const auto begin = std::chrono::steady_clock::now();
    scheduler->Commit(&step->result, &committed);
    now_ += SecondsSince(begin);
    gaps_.clear();
    for (const auto& one : committed) {
      const uint64_t stream = one.sequence->request.id.value();
      double& told_at = told_at_[stream];
      if (stream > static_cast<uint64_t>(options_.streams)) gaps_.push_back(now_ - told_at);
      told_at = now_;
      if (one.index + 1 == one.sequence->request.max_tokens) scheduler->Remove(one.sequence);
    }
    return static_cast<int64_t>(committed.size());
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
  std::vector<Stage> stages_;
  int32_t blocks_ = 0;
  const Script* script_ = nullptr;
  double now_ = 0;               // where every stage has this machine for itself
  std::vector<double> told_at_;  // by stream, from 1: when its last token was there
  std::vector<double> gaps_;     // before the tokens of a step, of streams without guesses
  std::vector<std::byte> rows_;  // from stage to stage
  std::vector<v1::SampledToken> sampled_;
};

// The value below which such a share of them is.
double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

// The gaps of the others in the rounds, without guesses beside them and with. Answers with guesses
// end sooner: as many gaps count as there are of both.
class Gaps {
 public:
  void Add(std::span<const double> without, std::span<const double> with) {
    const size_t both = std::min(without.size(), with.size());
    if (both == 0) return;
    const auto add = [both](std::span<const double> from, std::vector<double>* all) {
      all->insert(all->end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(both));
      return Median({from.begin(), from.begin() + static_cast<std::ptrdiff_t>(both)});
    };
    const double before = add(without, &without_);
    ratios_.push_back(add(with, &with_) / before);
  }

  void Print(int beside) const {
    if (ratios_.empty()) return;
    std::printf(
        "%-12s %d beside them: ms between tokens %.1f without, %.1f with, p99 %.1f and %.1f, "
        "longest %.1f and %.1f; ratio of medians %.3f (%.3f to %.3f)\n",
        "", beside, 1e3 * Median(without_), 1e3 * Median(with_), 1e3 * Quantile(without_, 0.99),
        1e3 * Quantile(with_, 0.99), 1e3 * Quantile(without_, 1), 1e3 * Quantile(with_, 1),
        Median(ratios_), Quantile(ratios_, 0), Quantile(ratios_, 1));
  }

 private:
  std::vector<double> without_, with_, ratios_;
};

absl::Status Measure(const SpeculationBenchOptions& options, const Script& script, Bench* bench) {
  std::vector<double> without, with, ratios;
  Round last;
  Gaps gaps;
  for (int round = 0; round < options.rounds; ++round) {
    double rate[2] = {};
    std::vector<double> between[2];
    // Each comes first in turn.
    for (int turn = 0; turn < 2; ++turn) {
      const bool guesses = (turn + round) % 2 == 1;
      TUTTI_ASSIGN_OR_RETURN(const Round one, bench->Run(script, guesses));
      rate[guesses ? 1 : 0] = static_cast<double>(one.tokens) / one.seconds;
      between[guesses ? 1 : 0] = one.gaps;
      if (guesses) last = one;
    }
    gaps.Add(between[0], between[1]);
    without.push_back(rate[0]);
    with.push_back(rate[1]);
    ratios.push_back(rate[1] / rate[0]);
  }
  int64_t right = 0;
  for (const uint64_t count : last.guessed.right) right += static_cast<int64_t>(count);
  const auto [offline_right, offline_guessed] = CountOffline(script);
  std::printf(
      "%-12s %5zu + %5zu tokens, %d streams, %d stages: %7.1f tokens/s without, %7.1f with, ratio "
      "%.2f (%.2f "
      "to %.2f); %.2f tokens a step, %lld of %llu guesses right (by the text alone %lld of %lld)\n",
      script.name.c_str(), script.prompt.size(), script.answer.size(), options.streams,
      options.stages, Median(without), Median(with), Median(ratios),
      *std::min_element(ratios.begin(), ratios.end()),
      *std::max_element(ratios.begin(), ratios.end()),
      static_cast<double>(last.tokens) / static_cast<double>(last.turns),
      static_cast<long long>(right), static_cast<unsigned long long>(last.guessed.tokens),
      static_cast<long long>(offline_right * options.streams),
      static_cast<long long>(offline_guessed * options.streams));
  gaps.Print(options.beside);
  // Prompts longer than one step indexes are known in part at first, when several ask.
  const bool indexed_at_once = options.streams * script.tokens() <= coordinator::kIndexedInStep;
  if (options.any_time && (options.streams == 1 || indexed_at_once) &&
      right != offline_right * options.streams) {
    return absl::InternalError("what was right is not what the text says");
  }
  return absl::OkStatus();
}

absl::Status Run(const SpeculationBenchOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<Script> scripts,
                         ReadScripts(options.script, options.model, options.answer_tokens));
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
