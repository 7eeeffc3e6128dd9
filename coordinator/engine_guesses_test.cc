// What becomes of a step's tokens where some were guessed: they leave one by one, and end as they
// would have without guesses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// One request whose text is 1 1 1 …, and so is what is guessed.
class EngineGuessesTest : public EngineTest {
 protected:
  void Begin(int32_t max_tokens, std::vector<TokenId> stop = {}) {
    EngineOptions options = TinyEngineOptions(1);
    options.guesses_max = kGuessesMax;
    Serve(options);
    Request request;
    request.id = RequestId(1);
    request.prompt.resize(5, 1);
    request.max_tokens = max_tokens;
    request.stop_token_ids = std::move(stop);
    Give(RequestArrived{request});
    Answer(Next(), {1});
  }
  // The worker's answer to a plan of one sequence; `more` may add to it.
  void Answer(const v1::StepPlan& plan, const std::vector<TokenId>& tokens,
              const std::function<void(v1::StepResult*)>& more = nullptr) {
    v1::Frame frame = ResultFrame(epoch(), plan.step());
    v1::StepResult* const result = frame.mutable_step_result();
    result->mutable_done()->set_compute_us(1000);
    for (const TokenId token : tokens) {
      const int32_t position = plan.scheduled(0).expected_tokens() + result->sampled_size();
      v1::SampledToken* const sampled = result->add_sampled();
      sampled->set_sequence(plan.scheduled(0).sequence());
      sampled->set_position(position);
      sampled->set_token(token);
    }
    if (more) more(result);
    actions_.clear();
    Send(1, std::move(frame));
  }
  // "index:token" of each delivery.
  std::vector<std::string> Delivered() const {
    std::vector<std::string> all;
    for (const DeliverTokens& deliver : ActionsOf<DeliverTokens>()) {
      EXPECT_EQ(deliver.tokens.size(), 1u);
      all.push_back(absl::StrCat(deliver.index, ":", deliver.tokens.at(0).token(),
                                 deliver.last ? " last" : ""));
    }
    return all;
  }
  static std::vector<TokenId> GuessesOf(const v1::StepPlan& plan) {
    return {plan.scheduled(0).guesses().begin(), plan.scheduled(0).guesses().end()};
  }
};

TEST_F(EngineGuessesTest, TokensLeaveOneByOne) {
  Begin(100);
  const v1::StepPlan plan = Next();
  ASSERT_THAT(GuessesOf(plan), ElementsAre(1, 1, 1, 1));
  Answer(plan, {1, 1, 4});
  EXPECT_THAT(Delivered(), ElementsAre("1:1", "2:1", "3:4"));
  const v1::PipelineStatus status = Status().pipelines(0);
  EXPECT_EQ(status.guess_verifications(), 1u);
  EXPECT_EQ(status.guessed_tokens(), 4u);
  EXPECT_EQ(status.guesses_right(0), 1u);
  EXPECT_EQ(status.guesses_right(1), 1u);
  EXPECT_EQ(status.guesses_right(2), 0u);
  EXPECT_EQ(Status().requests().generated_tokens(), 4u);
}

TEST_F(EngineGuessesTest, TheLastTokenEndsTheOutput) {
  Begin(4);
  const v1::StepPlan plan = Next();
  ASSERT_THAT(GuessesOf(plan), ElementsAre(1, 1));
  Answer(plan, {1, 1, 9});
  EXPECT_THAT(Delivered(), ElementsAre("1:1", "2:1", "3:9 last"));
  const auto finishes = ActionsOf<FinishRequest>();
  ASSERT_EQ(finishes.size(), 1u);
  EXPECT_EQ(finishes[0].cause, FinishCause::kLength);
  EXPECT_EQ(finishes[0].completion_tokens, 4);
  EXPECT_EQ(finishes[0].guessed, 2);
  EXPECT_EQ(finishes[0].guessed_right, 2);
}

TEST_F(EngineGuessesTest, AStopTokenIsNotGuessed) {
  Begin(100, /*stop=*/{7});
  v1::StepPlan plan = Next();
  Answer(plan, {1, 7});
  EXPECT_THAT(Delivered(), ElementsAre("1:1", "2:7 last"));
  EXPECT_EQ(ActionsOf<FinishRequest>().at(0).cause, FinishCause::kStopToken);
  Begin(100, /*stop=*/{1});
  EXPECT_THAT(ActionsOf<FinishRequest>().at(0).cause, FinishCause::kStopToken);
}

// A worker that says what it cannot know ends with its link, and the answer is computed again.
TEST_F(EngineGuessesTest, MoreThanWasGuessedRightIsNotBelieved) {
  Begin(100);
  const v1::StepPlan plan = Next();
  Answer(plan, {4, 1});
  EXPECT_THAT(Delivered(), IsEmpty());
  EXPECT_EQ(ActionsOf<CloseWorker>().size(), 1u);
}

TEST_F(EngineGuessesTest, ARowThatLosesItsNumbersEndsTheRequestBehindThoseBefore) {
  Begin(100);
  const v1::StepPlan plan = Next();
  const uint64_t sequence = plan.scheduled(0).sequence();
  Answer(plan, {1, 1}, [&](v1::StepResult* result) {
    result->add_poisoned(sequence);
    v1::NumericFault* const fault = result->add_faults();
    fault->set_sequence(sequence);
    fault->set_layer(2);
  });
  EXPECT_THAT(Delivered(), ElementsAre("1:1", "2:1"));
  const auto finishes = ActionsOf<FinishRequest>();
  ASSERT_EQ(finishes.size(), 1u);
  EXPECT_EQ(finishes[0].status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(finishes[0].status.message()),
              HasSubstr("attention of layer 2 produced NaN or Inf for token 3 of the output"));
  EXPECT_EQ(finishes[0].completion_tokens, 3);
}

TEST_F(EngineGuessesTest, NumbersOfAWrongGuessMayBeLost) {
  Begin(100);
  v1::StepPlan plan = Next();
  Answer(plan, {1, 4}, [&](v1::StepResult* result) {
    result->add_faults()->set_sequence(plan.scheduled(0).sequence());
  });
  EXPECT_THAT(Delivered(), ElementsAre("1:1", "2:4"));
  EXPECT_THAT(ActionsOf<FinishRequest>(), IsEmpty());
  plan = Next();
  EXPECT_EQ(plan.scheduled(0).first(), 7);
  EXPECT_THAT(plan.scheduled(0).new_tokens(), ElementsAre(1, 4));
}

TEST_F(EngineGuessesTest, WhereNothingCanBeDrawnTheWorkersWordsEndTheRequest) {
  Begin(100);
  const v1::StepPlan plan = Next();
  Answer(plan, {1}, [&](v1::StepResult* result) {
    v1::UndrawnRow* const row = result->add_undrawn();
    row->set_sequence(plan.scheduled(0).sequence());
    row->set_code(static_cast<int32_t>(absl::StatusCode::kFailedPrecondition));
    row->set_message("nothing may come");
  });
  EXPECT_THAT(Delivered(), ElementsAre("1:1"));
  const auto finishes = ActionsOf<FinishRequest>();
  ASSERT_EQ(finishes.size(), 1u);
  EXPECT_EQ(finishes[0].status, absl::FailedPreconditionError("nothing may come"));
}

TEST_F(EngineGuessesTest, ALostPipelineComputesWhatWasDrawn) {
  Begin(100);
  v1::StepPlan plan = Next();
  Answer(plan, {1, 4});
  plan = Next();
  ASSERT_GT(plan.scheduled_size(), 0);
  actions_.clear();
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Join(2, "w1");
  Turn();
  v1::Frame ready;
  ready.set_epoch(epoch());
  ready.mutable_shard_ready();
  Send(2, ready);
  plan = Next();
  ASSERT_EQ(plan.new_sequences_size(), 1);
  EXPECT_THAT(plan.new_sequences(0).tokens(), ElementsAre(1, 1, 1, 1, 1, 1, 1, 4));
  EXPECT_EQ(plan.new_sequences(0).prompt_tokens(), 5);
}

}  // namespace
}  // namespace tutti::coordinator
