#include "bench/synthetic_cluster.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/protocol.h"

namespace tutti::bench {
namespace {

// Answers repeat themselves after so many tokens.
constexpr int32_t kPeriod = 100;
// What a step takes, where tokens are guessed: rows cost nothing.
constexpr int64_t kStepUs = 10'000;

}  // namespace

// Room for a long measurement, in less than 2^25 tokens of K/V in all: a prompt is 4,000 tokens at
// most.
int32_t SyntheticCluster::TokensEach(int32_t sequences) {
  return std::clamp((1 << 25) / sequences, 1 << 13, 1 << 14);
}

coordinator::EngineOptions SyntheticCluster::OptionsOf(const SyntheticLoad& load,
                                                       coordinator::StepMetrics* step_metrics) {
  coordinator::EngineOptions engine;
  engine.step_metrics = step_metrics;
  model::ModelConfig& model = engine.model;
  model.architecture = "Qwen3ForCausalLM";
  model.model_type = "qwen3";
  model.hidden_size = 64;
  model.intermediate_size = 128;
  model.num_layers = load.stages;
  model.num_heads = model.num_kv_heads = 1;
  model.head_dim = 16;
  model.vocab_size = 151936;
  model.max_position_embeddings = 1 << 20;
  model.tie_word_embeddings = true;
  engine.num_stages = load.stages;
  engine.num_pipelines = load.pipelines;
  engine.max_batch_tokens = std::max(512, load.sequences);
  engine.max_sequences = load.running > 0 ? load.running : load.sequences;
  engine.max_waiting = load.sequences;
  engine.guesses_max = load.guesses ? coordinator::kGuessesMax : 0;
  // Twice a pipeline's share: the router does not count heads.
  const int64_t share = 2 * ((int64_t{load.sequences} + load.pipelines - 1) / load.pipelines);
  engine.kv_tokens_max = std::min<int64_t>(load.sequences, share) * TokensEach(load.sequences);
  return engine;
}

SyntheticCluster::SyntheticCluster(const SyntheticLoad& load)
    : load_(load), engine_(OptionsOf(load, &step_metrics_)), pipelines_(load.pipelines) {
  Join();
}

coordinator::RequestArrived SyntheticCluster::NewRequest() {
  coordinator::Request request;
  request.id = RequestId(++last_request_);
  // No two begin alike: every block is computed.
  request.prompt.assign(load_.prompt_tokens, static_cast<TokenId>(last_request_ % 100'000));
  request.max_tokens = load_.output_tokens > 0 ? load_.output_tokens
                                               : TokensEach(load_.sequences) - load_.prompt_tokens;
  request.sampling.set_temperature(1);
  request.sampling.set_seed(last_request_);
  request.stop_token_ids = {151643, 151645};
  return {std::move(request)};
}

std::vector<coordinator::Event> SyntheticCluster::NewRequests(
    int32_t count, const std::function<void(coordinator::RequestArrived*)>& change) {
  std::vector<coordinator::Event> requests;
  requests.reserve(count);
  for (int32_t i = 0; i < count; ++i) {
    coordinator::RequestArrived arrived = NewRequest();
    if (change) change(&arrived);
    last_request_ += arrived.others.size();
    requests.emplace_back(std::move(arrived));
  }
  return requests;
}

double SyntheticCluster::Arrive(std::vector<coordinator::Event> requests) {
  const auto begin = std::chrono::steady_clock::now();
  for (coordinator::Event& request : requests) engine_.Handle(std::move(request), now_, &actions_);
  engine_.Advance(now_, &actions_);
  const double seconds = Seconds(std::chrono::steady_clock::now() - begin);
  Observe();
  return seconds;
}

void SyntheticCluster::Join() {
  const uint64_t workers = pipelines_.size() * load_.stages;
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
    frame.set_epoch(pipelines_[(link - 1) / load_.stages].epoch);
    frame.mutable_shard_ready();
    engine_.Handle(coordinator::WorkerFrame{coordinator::LinkKey(link), std::move(frame)}, now_,
                   &actions_);
  }
  for (coordinator::WorkerFrame& answer : probes_.Take(&actions_)) {
    engine_.Handle(std::move(answer), now_, &actions_);
  }
  Advance();
}

void SyntheticCluster::Handle(coordinator::Event event) {
  engine_.Handle(std::move(event), now_, &actions_);
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
    if (send == nullptr || send->link.value() % load_.stages != 0) continue;
    Pipeline& pipeline = pipelines_[send->link.value() / load_.stages - 1];
    pipeline.epoch = std::max(pipeline.epoch, send->frame.epoch());
    if (!send->frame.has_step_plan()) continue;
    bytes += static_cast<int64_t>(send->frame.ByteSizeLong());
    pipeline.plans.push_back(std::move(*send->frame.mutable_step_plan()));
  }
  actions_.clear();
  return bytes;
}

void SyntheticCluster::ReplaceEnded() {
  for (; ended_ > 0; --ended_) engine_.Handle(NewRequest(), now_, &actions_);
}

v1::Frame SyntheticCluster::Result(const v1::StepPlan& plan, uint64_t epoch, int64_t step_us) {
  v1::Frame frame;
  frame.set_epoch(epoch);
  v1::StepResult* const result = frame.mutable_step_result();
  result->set_step(plan.step());
  result->mutable_done()->set_step(plan.step());
  result->mutable_done()->set_compute_us(step_us);
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    if (!scheduled.sample()) continue;
    // As long as the token before was guessed.
    for (int guess = 0;; ++guess) {
      const int32_t position = scheduled.expected_tokens() + guess;
      const TokenId token = 1000 + position % kPeriod;
      v1::SampledToken* const sampled = result->add_sampled();
      sampled->set_sequence(scheduled.sequence());
      sampled->set_position(position);
      sampled->set_token(token);
      if (guess == scheduled.guesses_size() || token != scheduled.guesses(guess)) break;
    }
  }
  return frame;
}

SyntheticCluster::Turn SyntheticCluster::DoStep() {
  // With fewer sequences than pipelines some have nothing to do.
  while (pipelines_[turn_].plans.empty()) turn_ = (turn_ + 1) % pipelines_.size();
  const auto chosen = static_cast<int32_t>(turn_);
  turn_ = (turn_ + 1) % pipelines_.size();
  Pipeline& pipeline = pipelines_[chosen];
  const v1::StepPlan plan = std::move(pipeline.plans.front());
  pipeline.plans.pop_front();
  const int64_t step_us = (load_.guesses ? kStepUs : 0) + load_.row_us * plan.total_rows();
  v1::Frame result = Result(plan, pipeline.epoch, step_us);
  Turn turn{.tokens = result.step_result().sampled_size()};
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t stage = 0; stage + 1 < load_.stages; ++stage) {
    v1::Frame done;
    done.set_epoch(pipeline.epoch);
    done.mutable_step_done()->set_step(plan.step());
    done.mutable_step_done()->set_compute_us(step_us);
    engine_.Handle(coordinator::WorkerFrame{LinkOf(chosen, stage, load_.stages), std::move(done)},
                   now_, &actions_);
  }
  engine_.Handle(
      coordinator::WorkerFrame{LinkOf(chosen, load_.stages - 1, load_.stages), std::move(result)},
      now_, &actions_);
  const auto middle = std::chrono::steady_clock::now();
  engine_.Advance(now_, &actions_);
  const auto end = std::chrono::steady_clock::now();
  turn.result_seconds = Seconds(middle - begin);
  turn.plan_seconds = Seconds(end - middle);
  turn.plan_bytes = Observe();
  ReplaceEnded();
  return turn;
}

void SyntheticCluster::WarmUp() {
  const int64_t chunks = (load_.prompt_tokens + 127) / 128;
  for (int64_t tokens = 0, step = 0;
       tokens < int64_t{5} * load_.sequences || step < 4 * chunks * load_.pipelines; ++step) {
    tokens += DoStep().tokens;
  }
}

}  // namespace tutti::bench
