// What a draft model on the last stage says, from the assignment of its shard to the status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

EngineOptions DraftOptions(int32_t stages) {
  EngineOptions options = TinyEngineOptions(stages);
  options.draft = std::make_shared<const model::ModelConfig>(options.model);
  options.draft_fingerprint = "draft";
  options.drafts_max = kGuessesMax;
  return options;
}

class EngineDraftsTest : public EngineTest {
 protected:
  void JoinWithDraft(uint64_t link) {
    v1::Hello hello = TinyHello(absl::StrCat("w", link));
    hello.set_draft_fingerprint("draft");
    Give(WorkerJoined{LinkKey(link), hello});
  }
  // One worker serves one request of five tokens, of which none is generated.
  void Begin() {
    Start(DraftOptions(1));
    JoinWithDraft(1);
    Turn();
    Ready(1);
    Arrive(1, 5, 100);
  }
  // The worker's answer to a plan of one sequence, with drafts behind the tokens.
  void Answer(const v1::StepPlan& plan, const std::vector<TokenId>& tokens,
              const std::vector<TokenId>& drafts,
              const std::function<void(v1::StepResult*)>& change = nullptr) {
    v1::Frame frame = ResultFrame(epoch(), plan.step());
    v1::StepResult* const result = frame.mutable_step_result();
    result->mutable_done()->set_compute_us(10'000);
    result->mutable_done()->set_draft_us(4'000);
    result->mutable_done()->set_draft_passes(4);
    for (const TokenId token : tokens) {
      const int32_t position = plan.scheduled(0).expected_tokens() + result->sampled_size();
      v1::SampledToken* const sampled = result->add_sampled();
      sampled->set_sequence(plan.scheduled(0).sequence());
      sampled->set_position(position);
      sampled->set_token(token);
    }
    v1::DraftedTokens* const drafted = result->add_drafted();
    drafted->set_sequence(plan.scheduled(0).sequence());
    drafted->set_position(plan.scheduled(0).expected_tokens() + result->sampled_size());
    drafted->mutable_tokens()->Add(drafts.begin(), drafts.end());
    if (change) change(result);
    actions_.clear();
    now_ += milliseconds(14);
    Send(1, std::move(frame));
  }
  static std::vector<TokenId> GuessesOf(const v1::StepPlan& plan) {
    return {plan.scheduled(0).guesses().begin(), plan.scheduled(0).guesses().end()};
  }
};

TEST_F(EngineDraftsTest, TheFirstRankOfTheLastStageHoldsTheDraftModel) {
  EngineOptions options = DraftOptions(2);
  options.num_ranks = 2;
  options.model.vocab_size = 4 * model::kVocabSplitRows;
  options.spares = 0;
  Start(options);
  for (uint64_t link = 1; link <= 4; ++link) JoinWithDraft(link);
  Turn();
  int assigned = 0;
  for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
    if (!send.frame.has_assign_shard()) continue;
    const v1::AssignShard& shard = send.frame.assign_shard();
    ++assigned;
    EXPECT_EQ(shard.draft(), shard.stage() == 1 && shard.rank() == 0) << shard.DebugString();
  }
  EXPECT_EQ(assigned, 4);
}

TEST_F(EngineDraftsTest, WithoutADraftModelNoShardHasOne) {
  Serve(TinyEngineOptions(1));
  for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
    EXPECT_FALSE(send.frame.has_assign_shard() && send.frame.assign_shard().draft());
  }
  Arrive(1, 5, 100);
  EXPECT_FALSE(Next().scheduled(0).has_drafts());
}

TEST_F(EngineDraftsTest, AWorkerWithoutItIsToldWhy) {
  Start(DraftOptions(1));
  Join(1, "w1");
  const auto closed = ActionsOf<CloseWorker>();
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_THAT(closed[0].reason.ToString(), HasSubstr("--draft-model"));
}

TEST_F(EngineDraftsTest, WhatItSaysIsVerified) {
  Begin();
  v1::StepPlan plan = Next();
  EXPECT_EQ(plan.scheduled(0).drafts(), 4);
  Answer(plan, {2}, {3, 4, 5});
  plan = Next();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(3, 4, 5));
  EXPECT_EQ(plan.scheduled(0).count(), 4);
  Answer(plan, {3, 4, 9}, {10, 11});
  EXPECT_EQ(ActionsOf<DeliverTokens>().size(), 3u);
  plan = Next();
  EXPECT_THAT(GuessesOf(plan), ElementsAre(10, 11));
  EXPECT_THAT(plan.scheduled(0).new_tokens(), ElementsAre(3, 4, 9));
  const v1::PipelineStatus status = Status().pipelines(0);
  EXPECT_EQ(status.guessed_tokens(), 3u);
  ASSERT_EQ(status.guess_sources_size(), 3);
  EXPECT_EQ(status.guess_sources(0).source(), "text");
  EXPECT_EQ(status.guess_sources(0).guessed_tokens(), 0u);
  EXPECT_EQ(status.guess_sources(1).source(), "answers");
  EXPECT_EQ(status.guess_sources(2).source(), "draft");
  EXPECT_EQ(status.guess_sources(2).guessed_tokens(), 3u);
  EXPECT_EQ(status.guess_sources(2).right_tokens(), 2u);
  EXPECT_NEAR(status.draft_seconds(), 0.008, 1e-9);
}

// A worker that says what it was not asked for ends with its link.
TEST_F(EngineDraftsTest, AWorkerThatContradictsItsPlanIsNotBelieved) {
  const std::vector<std::function<void(v1::StepResult*)>> lies = {
      [](v1::StepResult* r) { r->mutable_drafted(0)->set_position(5); },
      [](v1::StepResult* r) { r->mutable_drafted(0)->set_position(7); },
      [](v1::StepResult* r) { r->mutable_drafted(0)->set_sequence(99); },
      [](v1::StepResult* r) { r->mutable_drafted(0)->add_tokens(-1); },
      [](v1::StepResult* r) { r->mutable_drafted(0)->add_tokens(1 << 30); },
      [](v1::StepResult* r) { *r->add_drafted() = r->drafted(0); },
      [](v1::StepResult* r) { r->mutable_drafted(0)->mutable_tokens()->Resize(5, 1); },
      [](v1::StepResult* r) { r->mutable_done()->set_draft_us(-1); },
      [](v1::StepResult* r) { r->mutable_done()->set_draft_passes(-1); }};
  for (size_t i = 0; i < lies.size(); ++i) {
    SCOPED_TRACE(i);
    actions_.clear();
    Begin();
    Answer(Next(), {2}, {3}, lies[i]);
    EXPECT_THAT(ActionsOf<DeliverTokens>(), IsEmpty());
    EXPECT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  }
}

TEST_F(EngineDraftsTest, DraftsOfAnOutputThatEndedComeToNothing) {
  Begin();
  const v1::StepPlan plan = Next();
  Give(RequestCancelled{RequestId(1)});
  Answer(plan, {2}, {3, 4});
  EXPECT_THAT(ActionsOf<CloseWorker>(), IsEmpty());
  Arrive(2, 5, 100);
  EXPECT_THAT(GuessesOf(Next()), IsEmpty());
}

}  // namespace
}  // namespace tutti::coordinator
