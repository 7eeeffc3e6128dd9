// Plans go through a real link to a worker, which takes no larger message than links do.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/engine_testing.h"
#include "transport/inproc_link.h"
#include "transport/limits.h"

namespace tutti::coordinator {
namespace {

class IgnoringHandler : public transport::LinkHandler {
 public:
  void OnFrame(v1::Frame, transport::Payload) override {}
  void OnClosed(absl::Status) override {}
};

class EnginePlanSizeTest : public EngineTest {
 protected:
  EnginePlanSizeTest() {
    const absl::Status listening =
        network_.Listen("w1", [this](std::unique_ptr<transport::Link> l) {
          worker_end_ = std::move(l);
          return std::make_unique<IgnoringHandler>();
        });
    EXPECT_TRUE(listening.ok()) << listening;
    link_ = network_.MakeDialer()->Dial("w1", std::make_unique<IgnoringHandler>());
  }

  // Sends the worker the plans that the engine has made. The worker does them at once; their
  // results are handled before the engine goes on. False: there was none.
  bool DoPlans() {
    Turn();
    std::vector<v1::Frame> results;
    for (Action& action : actions_) {
      auto* const send = std::get_if<SendToWorker>(&action);
      if (send == nullptr || !send->frame.has_step_plan()) continue;
      const v1::StepPlan& plan = send->frame.step_plan();
      largest_ = std::max(largest_, static_cast<int64_t>(send->frame.ByteSizeLong()));
      ++plans_;
      begun_ += plan.new_sequences_size();
      results.push_back(ResultOf(send->frame.epoch(), plan));
      const absl::Status sent = link_->Send(std::move(send->frame));
      EXPECT_TRUE(sent.ok()) << "plan " << plans_ << ": " << sent;
    }
    for (const FinishRequest& finish : ActionsOf<FinishRequest>()) {
      EXPECT_TRUE(finish.status.ok()) << finish.status;
      ++finished_;
    }
    actions_.clear();
    for (v1::Frame& result : results) Send(1, std::move(result));
    return !results.empty();
  }

  transport::InprocNetwork network_;
  std::unique_ptr<transport::Link> worker_end_;
  std::unique_ptr<transport::Link> link_;
  int64_t largest_ = 0;
  int64_t plans_ = 0;
  int64_t begun_ = 0;
  int64_t finished_ = 0;
};

// 64 outputs of a prompt of 45,009 tokens with ids of three bytes: 8.6 MB if all begin in one step.
TEST_F(EnginePlanSizeTest, ManyOutputsOfALongPromptReachTheWorker) {
  EngineOptions options = TinyEngineOptions(1);
  options.model = tests::TinyModel(4, /*vocab=*/151'936);
  options.model.max_position_embeddings = 65'536;
  options.kv_tokens_max = 65'536;
  options.max_sequences = 64;
  options.chunk_tokens = 512;
  Serve(options);
  Turn();
  actions_.clear();
  RequestArrived arrived;
  for (uint64_t i = 1; i <= 64; ++i) {
    Request& output = i == 1 ? arrived.request : arrived.others.emplace_back();
    output.id = RequestId(i);
    output.first_output = RequestId(1);
    output.prompt.assign(45'009, 151'935);
    output.max_tokens = 3;
  }
  Give(std::move(arrived));
  while (DoPlans()) ASSERT_LT(plans_, 1000);
  EXPECT_EQ(begun_, 64);
  EXPECT_EQ(finished_, 64);
  EXPECT_LE(largest_, transport::kMessageBytesMax);
  EXPECT_GT(largest_, transport::kMessageBytesMax / 8 * 7)
      << "the bound is no looser than it must be";
}

TEST_F(EnginePlanSizeTest, WhatFitsNoPlanIsRefusedAtTheDoor) {
  EngineOptions options = TinyEngineOptions(1);
  options.plan_bytes_max = 2000;
  Serve(options);
  Turn();
  actions_.clear();
  // 2000 less 64 of the envelope and 82 for each of eight sequences; two bytes for each token, five
  // for each block, 120 for the rest.
  Arrive(1, 499, 1);
  while (DoPlans()) ASSERT_LT(plans_, 1000);
  EXPECT_EQ(finished_, 1);
  Arrive(2, 500, 1);
  const auto refused = ActionsOf<FinishRequest>();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].status.message(),
            "prompt of 500 tokens, max_tokens of 1 and sampling make a step's plan for the workers "
            "larger than 2000 bytes, the largest message between them");
}

}  // namespace
}  // namespace tutti::coordinator
