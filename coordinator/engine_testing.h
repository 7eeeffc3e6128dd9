// Shared by the engine's tests: the options and hellos of a tiny cluster, and a fixture whose
// workers send the frames that a test chooses.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/protocol.h"
#include "coordinator/engine.h"
#include "tests/support/probe_answers.h"
#include "tests/support/tiny_model.h"

namespace tutti::coordinator {

// The options for the tiny model of `layers` layers, with room for 1024 tokens and 8 sequences.
inline EngineOptions TinyEngineOptions(int32_t stages, int64_t layers = 4) {
  EngineOptions options;
  options.model = tests::TinyModel(layers);
  options.model_name = "tiny";
  options.model_fingerprint = "print";
  options.build = "build";
  options.cluster_id = "cluster";
  options.num_stages = stages;
  options.kv_tokens_max = 1024;
  options.max_sequences = 8;
  return options;
}

// The hello of a worker that may join a cluster of TinyEngineOptions.
inline v1::Hello TinyHello(const std::string& id, int64_t memory_bytes = int64_t{1} << 30) {
  v1::Hello hello;
  hello.set_protocol_version(kPeerProtocolVersion);
  hello.set_cluster_id("cluster");
  hello.set_worker_id(id);
  hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
  hello.set_build("build");
  hello.set_numerics_class("class");
  hello.set_model_fingerprint("print");
  hello.set_memory_bytes(memory_bytes);
  return hello;
}

// The actions of one type, in order.
template <typename T>
std::vector<T> ActionsOf(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
  }
  return found;
}

class EngineTest : public testing::Test {
 protected:
  void Start(const EngineOptions& options) { engine_ = std::make_unique<Engine>(options); }
  void Turn() {
    std::vector<Action> made;
    engine_->Advance(now_, &made);
    Keep(std::move(made));
  }
  void Give(Event event) {
    std::vector<Action> made;
    engine_->Handle(std::move(event), now_, &made);
    Keep(std::move(made));
  }
  void Join(uint64_t link, const std::string& id, int64_t memory_bytes = int64_t{1} << 30) {
    Give(WorkerJoined{LinkKey(link), TinyHello(id, memory_bytes)});
  }
  void Send(uint64_t link, v1::Frame frame) { Give(WorkerFrame{LinkKey(link), std::move(frame)}); }
  void Ready(uint64_t link) { Ready(link, epoch()); }
  void Ready(uint64_t link, uint64_t epoch) {
    v1::Frame frame;
    frame.set_epoch(epoch);
    frame.mutable_shard_ready()->set_weight_bytes(1234);
    frame.mutable_shard_ready()->set_load_seconds(0.5);
    Send(link, frame);
  }
  // Workers w1, w2, ... join, form the pipelines, the first ones the first, and load.
  void Serve(const EngineOptions& options, uint64_t workers = 1) {
    Start(options);
    for (uint64_t link = 1; link <= workers; ++link) Join(link, absl::StrCat("w", link));
    Turn();
    const uint64_t each = workers / static_cast<uint64_t>(options.num_pipelines);
    for (uint64_t link = 1; link <= workers; ++link) Ready(link, 1 + (link - 1) / each);
  }
  // The plan of the next turn, in which one worker gets one.
  v1::StepPlan Next() {
    actions_.clear();
    Turn();
    const auto sent = ActionsOf<SendToWorker>();
    EXPECT_EQ(sent.size(), 1u);
    return sent.empty() ? v1::StepPlan() : sent.front().frame.step_plan();
  }
  // The result of a step from rank 0 of the last stage; nothing is sampled yet.
  static v1::Frame ResultFrame(uint64_t epoch, uint64_t step) {
    v1::Frame frame;
    frame.set_epoch(epoch);
    frame.mutable_step_result()->set_step(step);
    frame.mutable_step_result()->mutable_done()->set_step(step);
    return frame;
  }
  // The same of a whole plan, with a token for each sequence that it samples.
  static v1::Frame ResultOf(uint64_t epoch, const v1::StepPlan& plan) {
    v1::Frame frame = ResultFrame(epoch, plan.step());
    for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
      if (!scheduled.sample()) continue;
      v1::SampledToken* const sampled = frame.mutable_step_result()->add_sampled();
      sampled->set_sequence(scheduled.sequence());
      sampled->set_position(scheduled.expected_tokens());
    }
    return frame;
  }
  void Beat(uint64_t link, uint64_t progress) {
    v1::Frame frame;
    frame.mutable_beat()->set_progress(progress);
    frame.mutable_beat()->set_resident_bytes(777);
    Send(link, frame);
  }
  void Arrive(uint64_t id, int32_t prompt, int32_t max_tokens) {
    Request request;
    request.id = RequestId(id);
    request.prompt.resize(prompt, 1);
    request.max_tokens = max_tokens;
    Give(RequestArrived{request});
  }
  uint64_t epoch() { return Status().pipelines(0).epoch(); }
  v1::GetStatusResponse Status() {
    v1::GetStatusResponse status;
    engine_->FillStatus(now_, &status);
    return status;
  }
  // Workers answer probes at once, and these are not among the actions, unless answer_probes_ is
  // false.
  void Keep(std::vector<Action> made) {
    std::vector<WorkerFrame> answers;
    if (answer_probes_) answers = probes_.Take(&made);
    for (Action& action : made) actions_.push_back(std::move(action));
    for (WorkerFrame& answer : answers) Give(std::move(answer));
  }
  template <typename T>
  std::vector<T> ActionsOf() const {
    return coordinator::ActionsOf<T>(actions_);
  }

  Instant now_ = Instant() + std::chrono::hours(1);
  std::unique_ptr<Engine> engine_;
  std::vector<Action> actions_;
  bool answer_probes_ = true;
  tests::ProbeAnswers probes_;
};

}  // namespace tutti::coordinator
