// The fate of sequences whose pipeline has ended: they go on, and only what brings workers down
// does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "coordinator/requests/admission_testing.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AdmissionRecoveryTest : public AdmissionTest {
 protected:
  // The pipeline serves again.
  void Revive(uint32_t pipeline, int32_t blocks = 64) {
    pipelines_[pipeline]->scheduler.BeginEpoch(/*num_stages=*/1, blocks);
    Settle(true);
  }
  void Settle(bool may_come) {
    admission_.SettleWaiting(may_come, "waiting for workers: w1", now_, &actions_);
  }
  // What is computed alone gets a token; its prompt is divided over more steps.
  void GiveAToken(uint32_t pipeline) {
    Scheduler& scheduler = pipelines_[pipeline]->scheduler;
    for (int i = 0; i < 20 && scheduler.alone() != nullptr; ++i) Step(pipeline);
    EXPECT_EQ(scheduler.alone(), nullptr);
  }
  v1::StepPlan Plan(uint32_t pipeline) {
    v1::StepPlan plan;
    EXPECT_TRUE(pipelines_[pipeline]->scheduler.Plan(now_, &plan));
    return plan;
  }
};

TEST_F(AdmissionRecoveryTest, WhatHasDeliveredTokensGoesOnWithThem) {
  Serve(2);
  ArriveAndBind(MakeRequest(1));
  Step(0);
  Step(0);
  Lose(0);
  Bind();
  EXPECT_THAT(Ended(), IsEmpty());
  EXPECT_EQ(Bound(1), 1);
  const v1::StepPlan plan = Plan(1);
  ASSERT_EQ(plan.new_sequences_size(), 1);
  EXPECT_EQ(plan.new_sequences(0).prompt_tokens(), 10);
  EXPECT_EQ(plan.new_sequences(0).tokens_size(), 12) << "the prompt and two tokens of the output";
}

TEST_F(AdmissionRecoveryTest, WhatRanGoesBeforeNewcomersOfItsClassOnly) {
  Serve(1, /*blocks=*/64, /*sequences=*/1);
  ArriveAndBind(MakeRequest(1));
  Step(0);
  Arrive(MakeRequest(2));
  Request urgent = MakeRequest(3);
  urgent.priority = -1;
  Lose(0);
  Arrive(urgent);
  Revive(0);
  Bind();
  EXPECT_EQ(Plan(0).new_sequences(0).tokens(0), 3) << "a class before all of the next";
  Cancel(3);
  Bind();
  EXPECT_EQ(Plan(0).new_sequences(0).tokens(0), 1);
}

// Two owners, level; the one whose pipeline was lost five times is charged no more for that.
TEST_F(AdmissionRecoveryTest, WhatIsComputedAgainIsChargedToNobody) {
  Serve(1, /*blocks=*/512, /*sequences=*/1);
  const auto of = [](uint64_t id, uint64_t owner, int32_t prompt) {
    Request request = MakeRequest(id, prompt);
    request.owner.low = owner;
    return request;
  };
  ArriveAndBind(of(1, 1, 3000));
  for (int i = 0; i < 5; ++i) {
    Lose(0);
    Revive(0, /*blocks=*/512);
    Bind();
  }
  // Charged once, owner 1 has had 3,000 tokens: level with owner 2, and it came first.
  Arrive(of(2, 1, 20));
  Arrive(of(3, 2, 20));
  Cancel(1);
  Bind();
  EXPECT_EQ(Plan(0).new_sequences(0).tokens(0), 2);
}

TEST_F(AdmissionRecoveryTest, ItWaitsForThePipelineAndNoLongerThanTheTimeOut) {
  Serve(1);
  ArriveAndBind(MakeRequest(1));
  Step(0);
  Lose(0);
  Settle(true);
  EXPECT_THAT(Ended(), IsEmpty());
  EXPECT_EQ(admission_.stranded_until(), now_ + options_.recovery_timeout);
  now_ += options_.recovery_timeout - std::chrono::milliseconds(1);
  Settle(true);
  EXPECT_THAT(Ended(), IsEmpty());
  now_ += std::chrono::milliseconds(1);
  Settle(true);
  EXPECT_THAT(Ended(), ElementsAre("1 UNAVAILABLE"));
  EXPECT_THAT(LastMessage(), HasSubstr("within 60 s (--recovery-timeout): waiting for workers"));
  EXPECT_EQ(admission_.stranded_until(), kInstantNever);
}

TEST_F(AdmissionRecoveryTest, NewcomersAreTakenWhileThePipelineIsAwaited) {
  Serve(1);
  ArriveAndBind(MakeRequest(1));
  Lose(0);
  ArriveAndBind(MakeRequest(2));
  ArriveAndBind(MakeRequest(3, 2000));
  EXPECT_THAT(Ended(), ElementsAre("3 INVALID_ARGUMENT")) << "the pool that was had 1,024 slots";
  EXPECT_EQ(admission_.stranded_until(), now_ + options_.recovery_timeout);
  Revive(0);
  Bind();
  EXPECT_EQ(Bound(0), 2);
}

TEST_F(AdmissionRecoveryTest, WhatNothingThatIsLeftCanHoldEndsAtOnce) {
  Serve(1, /*blocks=*/64);
  ArriveAndBind(MakeRequest(1, 600));
  ArriveAndBind(MakeRequest(2, 100));
  Step(0);
  Lose(0);
  pipelines_[0]->scheduler.BeginEpoch(/*num_stages=*/1, /*num_blocks=*/8);
  Settle(/*may_come=*/false);
  EXPECT_THAT(Ended(), ElementsAre("1 UNAVAILABLE"));
  EXPECT_THAT(LastMessage(), HasSubstr("room for 604 tokens in the KV cache, and the pipelines "
                                       "that are left have 128"));
  Bind();
  EXPECT_EQ(Bound(0), 1) << "the head of the queue blocks nobody";
}

TEST_F(AdmissionRecoveryTest, ASequenceKeepsItsNumericsClass) {
  Serve(3);
  pipelines_[0]->numerics = pipelines_[2]->numerics = "avx";
  pipelines_[1]->numerics = "amx";
  ArriveAndBind(MakeRequest(1));
  ASSERT_EQ(Bound(0), 1);
  Step(0);
  Lose(0);
  Bind();
  EXPECT_EQ(Bound(1), 0);
  EXPECT_EQ(Bound(2), 1);
  Lose(2);
  Bind();
  EXPECT_EQ(Bound(1), 0);
  EXPECT_EQ(Queued(), 1);
  Settle(/*may_come=*/false);
  EXPECT_THAT(LastMessage(), HasSubstr("numerics class avx"));
}

// ---- suspects

TEST_F(AdmissionRecoveryTest, ALossCountsOnlyForStepsUnderWay) {
  Serve(1);
  ArriveAndBind(MakeRequest(1));
  for (int i = 0; i < 5; ++i) {
    Lose(0);
    Revive(0);
    Bind();
    EXPECT_EQ(Bound(0), 1);
  }
  EXPECT_THAT(Ended(), IsEmpty());
}

TEST_F(AdmissionRecoveryTest, ATokenClearsASequence) {
  Serve(1);
  ArriveAndBind(MakeRequest(1, 10, 20));
  for (int i = 0; i < 5; ++i) {
    Plan(0);
    Lose(0);
    Revive(0);
    Bind();
    Step(0);
  }
  EXPECT_THAT(Ended(), IsEmpty());
}

TEST_F(AdmissionRecoveryTest, ASuspectIsComputedAlone) {
  Serve(2, /*blocks=*/64, /*sequences=*/8);
  ArriveAndBind(MakeRequest(1));
  ASSERT_EQ(Bound(0), 1);
  for (int loss = 0; loss < 2; ++loss) {
    const uint32_t at = Bound(0) == 1 ? 0 : 1;
    Plan(at);
    Lose(at);
    Revive(at);
    Bind();
  }
  const uint32_t alone = Bound(0) == 1 ? 0 : 1;
  for (uint64_t id = 2; id <= 5; ++id) ArriveAndBind(MakeRequest(id));
  EXPECT_EQ(Bound(alone), 1) << "nothing is computed beside it";
  EXPECT_EQ(Bound(1 - alone), 4);
  GiveAToken(alone);
  ArriveAndBind(MakeRequest(6));
  EXPECT_EQ(Bound(alone), 2);
}

// A step from before it was alone is still under way, and the loss may be that one's doing.
TEST_F(AdmissionRecoveryTest, ASuspectIsNotJudgedByAStepWithOthers) {
  Serve(2);
  ArriveAndBind(MakeRequest(1));
  Plan(0);
  Lose(0);
  Bind();
  Plan(1);
  Revive(0);
  ArriveAndBind(MakeRequest(2));
  Plan(0);
  Lose(1);
  Bind();
  EXPECT_EQ(Bound(0), 1);
  v1::StepPlan plan;
  EXPECT_FALSE(pipelines_[0]->scheduler.Plan(now_, &plan)) << "the step of the other is under way";
  Lose(0);
  EXPECT_THAT(Ended(), IsEmpty());
  Revive(0);
  Bind();
  Plan(0);
  Lose(0);
  EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL"));
}

TEST_F(AdmissionRecoveryTest, WithOnePipelineSuspectsTakeTurnsBeforeOthers) {
  Serve(1, /*blocks=*/64, /*sequences=*/8);
  for (uint64_t id = 1; id <= 3; ++id) ArriveAndBind(MakeRequest(id));
  for (int loss = 0; loss < 2; ++loss) {
    Plan(0);
    Lose(0);
    Revive(0);
    Bind();
  }
  Arrive(MakeRequest(4));
  for (int turn = 0; turn < 3; ++turn) {
    Bind();
    EXPECT_EQ(Plan(0).new_sequences_size(), 1) << turn;
    Lose(0);
    Revive(0);
  }
  EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL", "2 INTERNAL", "3 INTERNAL"));
  Bind();
  EXPECT_EQ(Bound(0), 1) << "request 4";
}

// A cleared one makes room for the next suspect at once, and goes on when all have been alone.
TEST_F(AdmissionRecoveryTest, SuspectsDoNotWaitForTheEndOfThoseThatAreCleared) {
  Serve(1, /*blocks=*/64, /*sequences=*/8);
  for (uint64_t id = 1; id <= 3; ++id) ArriveAndBind(MakeRequest(id, 10, 50));
  for (int loss = 0; loss < 2; ++loss) {
    Plan(0);
    Lose(0);
    Revive(0);
    Bind();
  }
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(Bound(0), 1) << turn;
    GiveAToken(0);
    Bind();
  }
  EXPECT_EQ(Bound(0), 3);
  EXPECT_THAT(Ended(), IsEmpty());
}

TEST_F(AdmissionRecoveryTest, TheThirdLossInARowEndsItAndTwoOfThemThoseLikeIt) {
  Serve(1);
  Request killer = MakeRequest(1);
  for (uint64_t id = 1; id <= 2; ++id) {
    killer.id = RequestId(id);
    killer.sampling.set_seed(id);
    ArriveAndBind(killer);
    for (int loss = 0; loss < 3; ++loss) {
      ASSERT_EQ(Bound(0), 1) << loss;
      Plan(0);
      Lose(0, "w1 was lost: gone");
      Revive(0);
      Bind();
    }
    EXPECT_EQ(Ended().back(), absl::StrCat(id, " INTERNAL"));
    EXPECT_THAT(LastMessage(), HasSubstr("3 times in a row while they computed token 0"));
    EXPECT_THAT(LastMessage(), HasSubstr("w1 was lost: gone"));
  }
  killer.id = RequestId(5);
  killer.sampling.set_seed(5);
  ArriveAndBind(killer);
  EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL", "2 INTERNAL", "5 INTERNAL"));
  killer.id = RequestId(3);
  killer.prompt.back() += 1;
  ArriveAndBind(killer);
  EXPECT_EQ(Bound(0), 1) << "another request";
  Cancel(3);
  now_ += kPoisonRefusedTime;
  killer.id = RequestId(4);
  killer.prompt.back() -= 1;
  ArriveAndBind(killer);
  EXPECT_EQ(Bound(0), 1) << "not for ever";
}

}  // namespace
}  // namespace tutti::coordinator
