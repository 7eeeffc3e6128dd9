#include "bench/local.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "kernels/backend.h"
#include "kernels/machine_probe.h"
#include "kernels/tunable.h"
#include "model/config_json.h"
#include "model/partition.h"
#include "program/machine.h"
#include "worker/batch.h"
#include "worker/kernel_tuner.h"
#include "worker/sequence_table.h"
#include "worker/transformer.h"

namespace tutti::bench {
namespace {

constexpr int kBlockSize = 16;
// Decode steps between two probes of the machine (10 ms each): often enough to see its speed
// change, seldom enough not to dominate the run.
constexpr int kStepsPerProbe = 16;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct RunTimes {
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

int32_t BlocksPerSequence(const LocalLoad& load) {
  return (load.prompt_tokens + load.output_tokens + kBlockSize - 1) / kBlockSize;
}

// Sizes that hold any of the loads, one at a time.
struct Sizes {
  int32_t blocks = 0;
  int32_t sequences = 0;
  int32_t length = 0;
};

Sizes SizesOf(const std::vector<LocalLoad>& loads) {
  Sizes sizes;
  for (const LocalLoad& load : loads) {
    sizes.blocks = std::max(sizes.blocks, BlocksPerSequence(load) * load.batch);
    sizes.sequences = std::max(sizes.sequences, load.batch);
    sizes.length = std::max(sizes.length, load.prompt_tokens + load.output_tokens);
  }
  return sizes;
}

// Drives one StageRunner with the plans a coordinator would send.
class LocalBench {
 public:
  LocalBench(const LocalBenchOptions& options, const model::ModelConfig& config, const Sizes& sizes)
      : options_(options), config_(config), sizes_(sizes) {}

  absl::Status Load() {
    TUTTI_ASSIGN_OR_RETURN(
        backend_,
        kernels::CreateBackend(options_.device, {.num_threads = options_.threads,
                                                 .numerics_class = options_.numerics_class,
                                                 .graphs = options_.cuda_graphs,
                                                 .early_kernels = options_.cuda_early_kernels}));
    if (auto* const tunable = backend_->tunable()) {
      if (options_.tune) worker::TuneAtStart(backend_.get(), config_.dtype, "");
      kernels_ = worker::ChoicesText(*tunable);
    }
    if (!options_.device.starts_with("cuda")) {
      TUTTI_ASSIGN_OR_RETURN(probe_, kernels::MachineProbe::Create(options_.threads));
    }
    const worker::StageRunnerFactory factory = worker::MakeTransformerFactory(
        {.dir = options_.model, .config = config_, .backend = backend_.get()});
    const double start = Now();
    TUTTI_ASSIGN_OR_RETURN(runner_, factory(Shard(), [](int64_t, int64_t) {}));
    load_seconds_ = Now() - start;
    return absl::OkStatus();
  }

  // From here on. A chunk of a prompt, untimed: it touches memory and wakes threads.
  absl::Status Use(const LocalLoad& load) {
    load_ = load;
    read_rates_.clear();
    flop_rates_.clear();
    best_flop_rates_.clear();
    worker::SequenceTable table(Limits());
    table_ = &table;
    return PrefillChunk(/*run=*/0, /*sequence=*/0, /*first=*/0);
  }

  absl::StatusOr<RunTimes> Run(int run) {
    worker::SequenceTable table(Limits());
    table_ = &table;
    RunTimes times;
    const double start = Now();
    for (int s = 0; s < load_.batch; ++s) TUTTI_RETURN_IF_ERROR(Prefill(run, s));
    times.prefill_seconds = Now() - start;
    for (int step = 1; step < load_.output_tokens; ++step) {
      if (step % kStepsPerProbe == 1) Probe();
      const double step_start = Now();
      TUTTI_RETURN_IF_ERROR(Decode(step));
      times.decode_seconds += Now() - step_start;
    }
    Probe();
    return times;
  }

  double load_seconds() const { return load_seconds_; }
  const std::string& kernels() const { return kernels_; }
  worker::ShardMemory memory() const { return runner_->memory(); }
  std::string numerics_class() const { return std::string(backend_->numerics_class()); }
  kernels::LaunchCounts launches() const { return backend_->launch_counts(); }
  double read_bytes_per_second() const { return Median(read_rates_); }
  double flops_per_second() const { return Median(flop_rates_); }
  double best_flops_per_second() const { return Median(best_flop_rates_); }

 private:
  int32_t RowsMax() const { return std::max(options_.chunk_tokens, sizes_.sequences); }

  v1::AssignShard Shard() const {
    v1::AssignShard shard;
    shard.set_num_stages(1);
    shard.set_num_ranks(1);
    shard.set_num_layers(static_cast<int32_t>(config_.num_layers));
    shard.set_has_embedding(true);
    shard.set_has_head(true);
    shard.set_block_size(kBlockSize);
    shard.set_num_blocks(sizes_.blocks);
    shard.set_max_batch_tokens(RowsMax());
    shard.set_max_sequences(sizes_.sequences);
    shard.set_max_model_len(sizes_.length);
    return shard;
  }

  worker::SequenceLimits Limits() const {
    return {.vocab_size = static_cast<int32_t>(config_.vocab_size),
            .block_size = kBlockSize,
            .num_blocks = sizes_.blocks,
            .max_batch_tokens = RowsMax(),
            .max_step_sequences = sizes_.sequences,
            .max_known_sequences = sizes_.sequences,
            .max_model_len = sizes_.length};
  }

  // Blocks that tokens [first, first + count) need beyond those before them.
  void AddBlocks(int sequence, int first, int count, v1::ScheduledSequence* scheduled) const {
    const int have = (first + kBlockSize - 1) / kBlockSize;
    const int need = (first + count + kBlockSize - 1) / kBlockSize;
    for (int b = have; b < need; ++b) {
      scheduled->add_new_blocks(sequence * BlocksPerSequence(load_) + b);
    }
    scheduled->set_expected_blocks(need);
  }

  absl::Status PrefillChunk(int run, int sequence, int first) {
    const int count = std::min(options_.chunk_tokens, load_.prompt_tokens - first);
    v1::StepPlan plan;
    if (first == 0) {
      v1::NewSequence* added = plan.add_new_sequences();
      added->set_sequence(static_cast<uint64_t>(sequence) + 1);
      added->set_prompt_tokens(load_.prompt_tokens);
      added->mutable_sampling()->set_temperature(load_.temperature);
      added->mutable_sampling()->set_seed(static_cast<uint64_t>(sequence));
      Random random(static_cast<uint64_t>(run), static_cast<uint64_t>(sequence));
      for (int i = 0; i < load_.prompt_tokens; ++i) {
        added->add_tokens(static_cast<int32_t>(random.Between(0, config_.vocab_size - 1)));
      }
    }
    v1::ScheduledSequence* scheduled = plan.add_scheduled();
    scheduled->set_sequence(static_cast<uint64_t>(sequence) + 1);
    scheduled->set_first(first);
    scheduled->set_count(count);
    scheduled->set_sample(first + count == load_.prompt_tokens);
    scheduled->set_expected_tokens(load_.prompt_tokens);
    AddBlocks(sequence, first, count, scheduled);
    return Step(&plan);
  }

  absl::Status Prefill(int run, int sequence) {
    for (int first = 0; first < load_.prompt_tokens; first += options_.chunk_tokens) {
      TUTTI_RETURN_IF_ERROR(PrefillChunk(run, sequence, first));
    }
    last_tokens_.resize(static_cast<size_t>(load_.batch));
    last_tokens_[static_cast<size_t>(sequence)] = sampled_.front().token();
    return absl::OkStatus();
  }

  absl::Status Decode(int step) {
    v1::StepPlan plan;
    const int first = load_.prompt_tokens + step - 1;
    for (int s = 0; s < load_.batch; ++s) {
      v1::ScheduledSequence* scheduled = plan.add_scheduled();
      scheduled->set_sequence(static_cast<uint64_t>(s) + 1);
      scheduled->set_first(first);
      scheduled->set_count(1);
      scheduled->set_sample(true);
      scheduled->add_new_tokens(last_tokens_[static_cast<size_t>(s)]);
      scheduled->set_expected_tokens(first + 1);
      AddBlocks(s, first, 1, scheduled);
    }
    TUTTI_RETURN_IF_ERROR(Step(&plan));
    for (size_t s = 0; s < last_tokens_.size(); ++s) last_tokens_[s] = sampled_[s].token();
    return absl::OkStatus();
  }

  absl::Status Step(v1::StepPlan* plan) {
    plan->set_step(++steps_);
    int32_t rows = 0;
    for (const auto& scheduled : plan->scheduled()) rows += scheduled.count();
    plan->set_total_rows(rows);
    TUTTI_RETURN_IF_ERROR(table_->Apply(*plan));
    worker::BuildBatch(*plan, table_, &batch_);
    sampled_.clear();
    TUTTI_RETURN_IF_ERROR(runner_->Run(batch_, {}, {}, &sampled_, [] {}));
    CHECK(sampled_.size() == batch_.sample_rows.size()) << sampled_.size() << " tokens";
    for (const v1::SampledToken& token : sampled_) {
      if (token.token() < 0) return absl::InternalError("the model's logits are not numbers");
    }
    return absl::OkStatus();
  }

  void Probe() {
    if (probe_ == nullptr) return;
    read_rates_.push_back(probe_->ReadBytesPerSecond());
    flop_rates_.push_back(config_.dtype == DType::kBF16 ? probe_->FlopsPerSecond(numerics_class())
                                                        : probe_->F32FlopsPerSecond());
    best_flop_rates_.push_back(probe_->BestFlopsPerSecond());
  }

  const LocalBenchOptions options_;
  const model::ModelConfig config_;
  const Sizes sizes_;
  LocalLoad load_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<kernels::MachineProbe> probe_;
  std::unique_ptr<worker::StageRunner> runner_;
  std::string kernels_;
  double load_seconds_ = 0;
  worker::SequenceTable* table_ = nullptr;  // of the run in progress
  worker::Batch batch_;
  uint64_t steps_ = 0;
  std::vector<v1::SampledToken> sampled_;
  std::vector<TokenId> last_tokens_;
  std::vector<double> read_rates_;
  std::vector<double> flop_rates_;
  std::vector<double> best_flop_rates_;
};

// Multiply-adds count as two.
double LayerFlopsOfRow(const model::ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto q_width = static_cast<double>(config.q_width());
  return 2 * (hidden * (q_width + 2.0 * static_cast<double>(config.kv_width())) + q_width * hidden +
              3.0 * hidden * static_cast<double>(config.intermediate_size));
}

double HeadFlopsOfRow(const model::ModelConfig& config) {
  return 2.0 * static_cast<double>(config.hidden_size) * static_cast<double>(config.vocab_size);
}

// Scores and weighted sums of one layer, of rows that see `slots` slots together.
double AttentionFlops(const model::ModelConfig& config, double slots) {
  return 4.0 * static_cast<double>(config.q_width()) * slots;
}

// Matrices of the layers for every token, the head for one row per sequence, and attention over
// everything before each token.
double PrefillFlops(const model::ModelConfig& config, const LocalBenchOptions& options) {
  const double tokens = options.load.prompt_tokens;
  const double sequence =
      static_cast<double>(config.num_layers) *
          (LayerFlopsOfRow(config) * tokens + AttentionFlops(config, tokens * (tokens + 1) / 2)) +
      HeadFlopsOfRow(config);
  return sequence * options.load.batch;
}

// Of a step in the middle of the output.
double DecodeFlops(const model::ModelConfig& config, const LocalBenchOptions& options) {
  const double slots = options.load.prompt_tokens + options.load.output_tokens / 2.0;
  return options.load.batch * (static_cast<double>(config.num_layers) *
                                   (LayerFlopsOfRow(config) + AttentionFlops(config, slots)) +
                               HeadFlopsOfRow(config));
}

absl::Status CheckOptions(const LocalBenchOptions& options, const LocalLoad& load,
                          const model::ModelConfig& config) {
  struct Bound {
    const char* name;
    int value;
    int least;
  };
  for (const Bound& bound :
       {Bound{"--prompt-tokens", load.prompt_tokens, 1},
        Bound{"--output-tokens", load.output_tokens, 2}, Bound{"--batch", load.batch, 1},
        Bound{"--runs", options.runs, 1}, Bound{"--chunk-tokens", options.chunk_tokens, 1}}) {
    if (bound.value < bound.least) {
      return absl::InvalidArgumentError(
          absl::StrCat(bound.name, " ", bound.value, " is below ", bound.least));
    }
  }
  const int64_t length = int64_t{load.prompt_tokens} + load.output_tokens;
  if (length > config.max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat("--prompt-tokens and --output-tokens make ",
                                                   length, " tokens, the model's context is ",
                                                   config.max_position_embeddings));
  }
  return absl::OkStatus();
}

void FillSpeeds(const model::ModelConfig& config, const std::vector<RunTimes>& runs,
                LocalBenchReport* report) {
  const LocalBenchOptions& options = report->options;
  std::vector<double> prefill;
  std::vector<double> decode_steps;
  for (const RunTimes& run : runs) {
    prefill.push_back(run.prefill_seconds);
    decode_steps.push_back(run.decode_seconds / (options.load.output_tokens - 1));
  }
  const double prefill_seconds = Median(prefill);
  const double step_seconds = Median(decode_steps);
  const model::ShardBytes bytes =
      model::ComputeShardBytes(config, model::WholeModel(config), /*ranks=*/1, /*rank=*/0);
  report->prefill_tokens_per_second =
      options.load.prompt_tokens * options.load.batch / prefill_seconds;
  report->decode_tokens_per_second = options.load.batch / step_seconds;
  // The head is read whole; of an embedding that is not the head only the rows of the batch.
  report->weight_bytes_per_step =
      bytes.layers + bytes.vectors + (bytes.head > 0 ? bytes.head : bytes.embedding);
  report->kv_bytes_per_step = config.kv_bytes_per_token(config.num_layers) * options.load.batch *
                              (options.load.prompt_tokens + options.load.output_tokens / 2);
  report->decode_bytes_per_second =
      static_cast<double>(report->weight_bytes_per_step + report->kv_bytes_per_step) / step_seconds;
  report->decode_flops_per_second = DecodeFlops(config, options) / step_seconds;
  report->prefill_flops_per_second = PrefillFlops(config, options) / prefill_seconds;
}

}  // namespace

absl::Status RunLocalBench(const LocalBenchOptions& given, const std::vector<LocalLoad>& loads,
                           const std::function<absl::Status(const LocalBenchReport&)>& said) {
  LocalBenchReport report{.options = given};
  LocalBenchOptions& options = report.options;
  if (options.threads == 0) options.threads = CpuCount();
  TUTTI_ASSIGN_OR_RETURN(const model::ModelConfig config, model::LoadModelConfig(options.model));
  for (const LocalLoad& load : loads) TUTTI_RETURN_IF_ERROR(CheckOptions(options, load, config));

  LocalBench bench(options, config, SizesOf(loads));
  TUTTI_RETURN_IF_ERROR(bench.Load());
  report.load_seconds = bench.load_seconds();
  report.kernels = bench.kernels();
  for (const LocalLoad& load : loads) {
    options.load = load;
    TUTTI_RETURN_IF_ERROR(bench.Use(load));
    std::vector<RunTimes> runs;
    for (int run = 0; run < options.runs; ++run) {
      TUTTI_ASSIGN_OR_RETURN(RunTimes times, bench.Run(run));
      runs.push_back(times);
    }
    const worker::ShardMemory memory = bench.memory();
    report.numerics_class = bench.numerics_class();
    report.launches = bench.launches();
    report.weight_bytes = memory.weight_bytes;
    report.kv_bytes = memory.kv_bytes;
    report.activation_bytes = memory.activation_bytes;
    report.machine_read_bytes_per_second = bench.read_bytes_per_second();
    report.machine_flops_per_second = bench.flops_per_second();
    report.machine_best_flops_per_second = bench.best_flops_per_second();
    FillSpeeds(config, runs, &report);
    TUTTI_RETURN_IF_ERROR(said(report));
  }
  return absl::OkStatus();
}

}  // namespace tutti::bench
