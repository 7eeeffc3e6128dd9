// Shared by the tests of admission: pipelines are schedulers without workers; the test plans their
// steps and commits them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/engine_testing.h"
#include "coordinator/requests/admission.h"

namespace tutti::coordinator {

class AdmissionTest : public testing::Test {
 protected:
  struct TestPipeline {
    TestPipeline(const SchedulerOptions& options, KvDirectory* directory, PipelineId id)
        : scheduler(options, directory, id), rate(options.chunk_tokens) {}
    Scheduler scheduler;
    StepRate rate;
    std::string numerics;
    bool exact = true;
  };

  // Pipelines of 64 blocks of 16 tokens that run two sequences at once.
  void Serve(int32_t pipelines, int32_t blocks = 64, int32_t sequences = 2) {
    for (int32_t i = 0; i < pipelines; ++i) {
      const PipelineId id(static_cast<uint32_t>(pipelines_.size()));
      pipelines_.push_back(std::make_unique<TestPipeline>(
          SchedulerOptions{.max_sequences = sequences}, &directory_, id));
      TestPipeline& added = *pipelines_.back();
      admission_.AddTarget({.scheduler = &added.scheduler,
                            .rate = &added.rate,
                            .numerics = &added.numerics,
                            .exact = &added.exact});
      added.scheduler.BeginEpoch(/*num_stages=*/1, blocks);
    }
  }
  static Request MakeRequest(uint64_t id, int32_t prompt = 10, int32_t max_tokens = 5) {
    Request request;
    request.id = RequestId(id);
    request.prompt.resize(prompt, static_cast<TokenId>(id));
    request.max_tokens = max_tokens;
    return request;
  }
  void Arrive(Request request) {
    admission_.HandleRequest({std::move(request)}, serving_, now_, &actions_);
  }
  // Outputs `id` to `id` + `outputs` - 1 of one request.
  void ArriveTogether(const Request& request, int32_t outputs) {
    RequestArrived arrived{request};
    if (outputs > 1) arrived.request.first_output = request.id;
    for (int32_t i = 1; i < outputs; ++i) {
      arrived.others.push_back(arrived.request);
      arrived.others.back().id = RequestId(request.id.value() + static_cast<uint64_t>(i));
    }
    admission_.HandleRequest(std::move(arrived), serving_, now_, &actions_);
  }
  void Bind() { admission_.BindWaiting(now_, &actions_); }
  void ArriveAndBind(Request request) {
    Arrive(std::move(request));
    Bind();
  }
  void Cancel(uint64_t id) { admission_.HandleCancellation({RequestId(id)}, now_, &actions_); }
  // Plans a step and commits it: each sequence with all its tokens gets one more.
  void Step(uint32_t pipeline) {
    Scheduler& scheduler = pipelines_[pipeline]->scheduler;
    v1::StepPlan plan;
    ASSERT_TRUE(scheduler.Plan(now_, &plan));
    v1::StepResult result;
    result.set_step(plan.step());
    for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
      if (!scheduled.sample()) continue;
      v1::SampledToken* const sampled = result.add_sampled();
      sampled->set_sequence(scheduled.sequence());
      sampled->set_position(scheduled.first() + scheduled.count());
      sampled->set_token(7);
    }
    std::vector<Scheduler::Sampled> sampled;
    scheduler.Commit(&result, &sampled);
    for (const Scheduler::Sampled& one : sampled) {
      admission_.HandleProgress(one.sequence, now_, &actions_);
    }
  }
  // Its worker failed of itself.
  void Lose(uint32_t pipeline, const std::string& why = "w1 was lost") {
    admission_.RecoverSequences(
        {.pipeline = PipelineId(pipeline), .why = why, .cause = LossCause::kFailed, .worker = "w1"},
        now_, &actions_);
  }
  // Sequences bound to a pipeline.
  int32_t Bound(uint32_t pipeline) const {
    const Scheduler& scheduler = pipelines_[pipeline]->scheduler;
    return scheduler.running() + scheduler.waiting();
  }
  int32_t Queued() const {
    v1::GetStatusResponse status;
    admission_.FillStatus(now_, &status);
    return status.waiting();
  }
  // "3 UNAVAILABLE": the requests that ended, in order, and how.
  std::vector<std::string> Ended() const {
    std::vector<std::string> ended;
    for (const FinishRequest& finish : ActionsOf<FinishRequest>(actions_)) {
      ended.push_back(absl::StrCat(finish.request.value(), " ",
                                   absl::StatusCodeToString(finish.status.code())));
    }
    return ended;
  }
  std::string LastMessage() const {
    return std::string(ActionsOf<FinishRequest>(actions_).back().status.message());
  }

  Instant now_ = Instant() + std::chrono::hours(1);
  EngineOptions options_ = TinyEngineOptions(/*stages=*/1);
  KvDirectory directory_{{.model_fingerprint = "print", .dtype = "bf16"}};
  StepsDue steps_due_;
  std::vector<std::unique_ptr<TestPipeline>> pipelines_;
  absl::Status serving_;
  std::vector<Action> actions_;
  Admission admission_{&options_, &directory_, &steps_due_};
};

}  // namespace tutti::coordinator
