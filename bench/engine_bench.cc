#include "bench/engine_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/protocol.h"
#include "coordinator/engine.h"
#include "coordinator/metrics/status_metrics.h"
#include "coordinator/metrics/step_metrics.h"
#include "tests/support/probe_answers.h"

namespace tutti::bench {
namespace {

// Room for a long measurement, in less than 2^25 tokens of K/V in all: a prompt is 4,000 tokens at
// most.
int32_t TokensEach(int32_t sequences) {
  return std::clamp((1 << 25) / sequences, 1 << 13, 1 << 14);
}

constexpr int kScrapes = 51;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The workers of all pipelines seen from the engine: they do every step at once, and say so when
// asked.
class SyntheticCluster {
 public:
  SyntheticCluster(const EngineBenchOptions& options, int32_t pipelines, int32_t sequences);

  // The next pipeline, in turn, does its oldest step. The seconds that the engine took to hear of
  // it, and to plan the next.
  struct Turn {
    double result_seconds = 0;
    double plan_seconds = 0;
    int64_t tokens = 0;
    int64_t plan_bytes = 0;
  };
  Turn DoStep();
  // From the arrival of all requests to their first plans.
  double burst_seconds() const { return burst_seconds_; }
  // What a scrape costs, now.
  void Scrape(EngineBenchRow* row) const;

 private:
  struct Pipeline {
    uint64_t epoch = 0;
    std::deque<v1::StepPlan> plans;
  };

  static coordinator::EngineOptions OptionsOf(const EngineBenchOptions& options, int32_t pipelines,
                                              int32_t sequences,
                                              coordinator::StepMetrics* step_metrics);
  coordinator::LinkKey LinkOf(size_t pipeline, int32_t stage) const {
    return coordinator::LinkKey(pipeline * stages_ + stage + 1);
  }
  void Join();
  coordinator::Event Request(int32_t sequences);
  void Arrive(int32_t sequences);
  void ReplaceEnded();
  void Advance();
  int64_t Observe();
  static v1::Frame Result(const v1::StepPlan& plan, uint64_t epoch);

  const EngineBenchOptions options_;
  const int32_t stages_;
  const int32_t sequences_;
  coordinator::StepMetrics step_metrics_;
  coordinator::Engine engine_;
  Instant now_{};
  std::vector<coordinator::Action> actions_;
  std::vector<Pipeline> pipelines_;
  tests::ProbeAnswers probes_;
  size_t turn_ = 0;
  uint64_t last_request_ = 0;
  int32_t ended_ = 0;  // and not replaced yet
  double burst_seconds_ = 0;
};

coordinator::EngineOptions SyntheticCluster::OptionsOf(const EngineBenchOptions& options,
                                                       int32_t pipelines, int32_t sequences,
                                                       coordinator::StepMetrics* step_metrics) {
  coordinator::EngineOptions engine;
  engine.step_metrics = step_metrics;
  model::ModelConfig& model = engine.model;
  model.architecture = "Qwen3ForCausalLM";
  model.model_type = "qwen3";
  model.hidden_size = 64;
  model.intermediate_size = 128;
  model.num_layers = options.stages;
  model.num_heads = model.num_kv_heads = 1;
  model.head_dim = 16;
  model.vocab_size = 151936;
  model.max_position_embeddings = 1 << 20;
  model.tie_word_embeddings = true;
  engine.num_stages = options.stages;
  engine.num_pipelines = pipelines;
  engine.max_batch_tokens = std::max(512, sequences);
  engine.max_sequences = options.running > 0 ? options.running : sequences;
  engine.max_waiting = sequences;
  // Twice a pipeline's share: the router does not count heads.
  const int64_t share = 2 * ((int64_t{sequences} + pipelines - 1) / pipelines);
  engine.kv_tokens_max = std::min<int64_t>(sequences, share) * TokensEach(sequences);
  return engine;
}

SyntheticCluster::SyntheticCluster(const EngineBenchOptions& options, int32_t pipelines,
                                   int32_t sequences)
    : options_(options),
      stages_(options.stages),
      sequences_(sequences),
      engine_(OptionsOf(options, pipelines, sequences, &step_metrics_)),
      pipelines_(pipelines) {
  Join();
  Arrive(sequences);
}

coordinator::Event SyntheticCluster::Request(int32_t sequences) {
  coordinator::Request request;
  request.id = RequestId(++last_request_);
  // No two begin alike: every block is computed.
  request.prompt.assign(options_.prompt_tokens, static_cast<TokenId>(last_request_ % 100'000));
  request.max_tokens = options_.output_tokens > 0 ? options_.output_tokens
                                                  : TokensEach(sequences) - options_.prompt_tokens;
  request.sampling.set_temperature(1);
  request.sampling.set_seed(last_request_);
  request.stop_token_ids = {151643, 151645};
  return coordinator::RequestArrived{std::move(request)};
}

void SyntheticCluster::Arrive(int32_t sequences) {
  std::vector<coordinator::Event> requests;
  for (int32_t i = 0; i < sequences; ++i) requests.push_back(Request(sequences));
  const auto begin = std::chrono::steady_clock::now();
  for (coordinator::Event& request : requests) engine_.Handle(std::move(request), now_, &actions_);
  engine_.Advance(now_, &actions_);
  burst_seconds_ = Seconds(std::chrono::steady_clock::now() - begin);
  Observe();
}

void SyntheticCluster::Join() {
  const uint64_t workers = pipelines_.size() * stages_;
  for (uint64_t link = 1; link <= workers; ++link) {
    v1::Hello hello;
    hello.set_protocol_version(kPeerProtocolVersion);
    hello.set_worker_id(absl::StrCat("w", link));
    hello.set_numerics_class("bench");
    hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
    hello.set_memory_bytes(int64_t{1} << 50);
    engine_.Handle(coordinator::WorkerJoined{coordinator::LinkKey(link), hello}, now_, &actions_);
  }
  Advance();
  for (uint64_t link = 1; link <= workers; ++link) {
    v1::Frame frame;
    frame.set_epoch(pipelines_[(link - 1) / stages_].epoch);
    frame.mutable_shard_ready();
    engine_.Handle(coordinator::WorkerFrame{coordinator::LinkKey(link), std::move(frame)}, now_,
                   &actions_);
  }
  for (coordinator::WorkerFrame& answer : probes_.Take(&actions_)) {
    engine_.Handle(std::move(answer), now_, &actions_);
  }
  Advance();
}

void SyntheticCluster::Advance() {
  engine_.Advance(now_, &actions_);
  (void)probes_.Take(&actions_);  // notes who is who
  Observe();
}

// Notes the plans; the bytes of the messages to the last stages.
int64_t SyntheticCluster::Observe() {
  int64_t bytes = 0;
  for (coordinator::Action& action : actions_) {
    if (std::holds_alternative<coordinator::FinishRequest>(action)) ++ended_;
    auto* const send = std::get_if<coordinator::SendToWorker>(&action);
    if (send == nullptr || send->link.value() % stages_ != 0) continue;
    Pipeline& pipeline = pipelines_[send->link.value() / stages_ - 1];
    pipeline.epoch = std::max(pipeline.epoch, send->frame.epoch());
    if (!send->frame.has_step_plan()) continue;
    bytes += static_cast<int64_t>(send->frame.ByteSizeLong());
    pipeline.plans.push_back(std::move(*send->frame.mutable_step_plan()));
  }
  actions_.clear();
  return bytes;
}

void SyntheticCluster::ReplaceEnded() {
  for (; ended_ > 0; --ended_) engine_.Handle(Request(sequences_), now_, &actions_);
}

v1::Frame SyntheticCluster::Result(const v1::StepPlan& plan, uint64_t epoch) {
  v1::Frame frame;
  frame.set_epoch(epoch);
  v1::StepResult* const result = frame.mutable_step_result();
  result->set_step(plan.step());
  result->mutable_done()->set_step(plan.step());
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    if (!scheduled.sample()) continue;
    v1::SampledToken* const sampled = result->add_sampled();
    sampled->set_sequence(scheduled.sequence());
    sampled->set_position(scheduled.expected_tokens());
    sampled->set_token(1000 + scheduled.expected_tokens() % 1000);
  }
  return frame;
}

SyntheticCluster::Turn SyntheticCluster::DoStep() {
  // With fewer sequences than pipelines some have nothing to do.
  while (pipelines_[turn_].plans.empty()) turn_ = (turn_ + 1) % pipelines_.size();
  const size_t chosen = turn_;
  turn_ = (turn_ + 1) % pipelines_.size();
  Pipeline& pipeline = pipelines_[chosen];
  const v1::StepPlan plan = std::move(pipeline.plans.front());
  pipeline.plans.pop_front();
  v1::Frame result = Result(plan, pipeline.epoch);
  Turn turn{.tokens = result.step_result().sampled_size()};
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t stage = 0; stage + 1 < stages_; ++stage) {
    v1::Frame done;
    done.set_epoch(pipeline.epoch);
    done.mutable_step_done()->set_step(plan.step());
    engine_.Handle(coordinator::WorkerFrame{LinkOf(chosen, stage), std::move(done)}, now_,
                   &actions_);
  }
  engine_.Handle(coordinator::WorkerFrame{LinkOf(chosen, stages_ - 1), std::move(result)}, now_,
                 &actions_);
  const auto middle = std::chrono::steady_clock::now();
  engine_.Advance(now_, &actions_);
  const auto end = std::chrono::steady_clock::now();
  turn.result_seconds = Seconds(middle - begin);
  turn.plan_seconds = Seconds(end - middle);
  turn.plan_bytes = Observe();
  ReplaceEnded();
  return turn;
}

void SyntheticCluster::Scrape(EngineBenchRow* row) const {
  std::vector<double> status_us, text_us;
  for (int i = 0; i < kScrapes; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    v1::GetStatusResponse status;
    engine_.FillStatus(now_, &status);
    const auto middle = std::chrono::steady_clock::now();
    metrics::Exposition text;
    coordinator::WriteStatus(status, {}, &text);
    step_metrics_.Write(&text);
    coordinator::WriteVllmStatus(status, /*now_s=*/0, &text);
    step_metrics_.WriteVllm("m", &text);
    (void)text.Release();
    const auto end = std::chrono::steady_clock::now();
    status_us.push_back(Seconds(middle - begin) * 1e6);
    text_us.push_back(Seconds(end - middle) * 1e6);
  }
  row->status_us = Median(std::move(status_us));
  row->text_us = Median(std::move(text_us));
}

}  // namespace

EngineBenchRow MeasureEngine(const EngineBenchOptions& options, int32_t pipelines,
                             int32_t sequences) {
  SyntheticCluster cluster(options, pipelines, sequences);
  // Until every sequence generates, and for a while longer, so that memory is warm.
  const int64_t chunks = (options.prompt_tokens + 127) / 128;
  for (int64_t tokens = 0, step = 0; tokens < 5 * sequences || step < 4 * chunks * pipelines;
       ++step) {
    tokens += cluster.DoStep().tokens;
  }
  EngineBenchRow row{.pipelines = pipelines,
                     .sequences = sequences,
                     .burst_us = cluster.burst_seconds() * 1e6 / sequences};
  double result_seconds = 0;
  double plan_seconds = 0;
  double plan_bytes = 0;
  const auto begin = std::chrono::steady_clock::now();
  // The start and the prompt have had their part of the room.
  const int64_t most = int64_t{TokensEach(sequences)} / 4 * sequences;
  while ((options.output_tokens > 0 || row.tokens < most) &&
         Seconds(std::chrono::steady_clock::now() - begin) < options.seconds) {
    const SyntheticCluster::Turn turn = cluster.DoStep();
    ++row.steps;
    row.tokens += turn.tokens;
    result_seconds += turn.result_seconds;
    plan_seconds += turn.plan_seconds;
    plan_bytes += static_cast<double>(turn.plan_bytes);
  }
  const auto tokens = static_cast<double>(row.tokens);
  row.result_us = result_seconds * 1e6 / tokens;
  row.plan_us = plan_seconds * 1e6 / tokens;
  row.step_us = (result_seconds + plan_seconds) * 1e6 / static_cast<double>(row.steps);
  row.plan_bytes = plan_bytes / tokens;
  cluster.Scrape(&row);
  return row;
}

namespace {

std::string RowJson(const EngineBenchRow& row) {
  return absl::StrFormat(
      "{\"pipelines\": %d, \"sequences\": %d, \"burst_us\": %.3f, \"steps\": %d, "
      "\"tokens\": %d, \"result_us\": %.3f, \"plan_us\": %.3f, \"token_us\": %.3f, "
      "\"step_us\": %.1f, \"share\": %.3f, \"plan_bytes\": %.1f, \"status_us\": %.0f, "
      "\"text_us\": %.0f}",
      row.pipelines, row.sequences, row.burst_us, row.steps, row.tokens, row.result_us, row.plan_us,
      row.token_us(), row.step_us, row.share(), row.plan_bytes, row.status_us, row.text_us);
}

void PrintRow(const EngineBenchRow& row) {
  std::printf("%9d %10d %12.3f %9ld %14.3f %14.3f %14.3f %12.1f %6.1f%% %14.1f %10.0f %10.0f\n",
              row.pipelines, row.sequences, row.burst_us, static_cast<long>(row.steps),
              row.result_us, row.plan_us, row.token_us(), row.step_us, 100 * row.share(),
              row.plan_bytes, row.status_us, row.text_us);
}

}  // namespace

int RunEngineBench(const EngineBenchOptions& options) {
  for (const int32_t sequences : options.sequences) {
    if (sequences < 1 || sequences > 50'000) {
      std::fprintf(stderr, "--sequences %d: must be 1 to 50000\n", sequences);
      return 2;
    }
  }
  if (options.running < 0 || options.output_tokens < 0 || options.output_tokens > 4000) {
    std::fprintf(stderr, "--running must be 0 or more, --output-tokens 0 to 4000\n");
    return 2;
  }
  if (options.stages < 1 || options.stages > 64 || options.prompt_tokens < 1 ||
      options.prompt_tokens > 4000 || !(options.seconds > 0)) {
    std::fprintf(stderr,
                 "--stages must be 1 to 64, --prompt-tokens 1 to 4000, --seconds above 0\n");
    return 2;
  }
  for (const int32_t pipelines : options.pipelines) {
    if (pipelines < 1 || pipelines > 1024) {
      std::fprintf(stderr, "--pipelines %d: must be 1 to 1024\n", pipelines);
      return 2;
    }
  }
  if (!options.json) {
    std::printf(
        "engine, %d stages, %s; share: of the engine's thread, when every pipeline does a step "
        "each 10 ms; status and text: of a scrape, by the engine's thread and by another\n\n"
        "%9s %10s %12s %9s %14s %14s %14s %12s %7s %14s %10s %10s\n",
        options.stages,
        options.running > 0
            ? absl::StrCat("at most ", options.running, " of each pipeline generate").c_str()
            : "every sequence generates",
        "pipelines", "sequences", "burst us/req", "steps", "result us/tok", "plan us/tok",
        "sum us/tok", "us/step", "share", "plan bytes/tok", "status us", "text us");
  }
  std::string json;
  for (const int32_t pipelines : options.pipelines) {
    for (const int32_t sequences : options.sequences) {
      const EngineBenchRow row = MeasureEngine(options, pipelines, sequences);
      if (options.json) {
        absl::StrAppend(&json, json.empty() ? "" : ", ", RowJson(row));
      } else {
        PrintRow(row);
      }
    }
  }
  if (options.json) {
    std::printf("{\"stages\": %d, \"rows\": [%s]}\n", options.stages, json.c_str());
  }
  return 0;
}

}  // namespace tutti::bench
