// Grammars between engine and workers: who is told the vocabulary, what the plan carries, and how
// a request ends whose grammar leaves no token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

class EngineGrammarTest : public EngineTest {
 protected:
  static EngineOptions Options(int32_t stages) {
    EngineOptions options = TinyEngineOptions(stages);
    auto vocabulary = std::make_shared<v1::Vocabulary>();
    vocabulary->set_text("ab");
    vocabulary->add_lengths(2);
    options.vocabulary = vocabulary;
    return options;
  }
  void ArriveByGrammar(uint64_t id) {
    Request request;
    request.id = RequestId(id);
    request.prompt.resize(5, 1);
    request.max_tokens = 9;
    request.sampling.mutable_grammar()->set_kind(v1::GRAMMAR_KIND_REGEX);
    request.sampling.mutable_grammar()->set_text("ab*");
    Give(RequestArrived{request});
  }
};

TEST_F(EngineGrammarTest, TheStageThatSamplesIsToldTheVocabulary) {
  Start(Options(2));
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  std::vector<std::pair<uint64_t, bool>> told;  // link, whether of the vocabulary
  for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
    if (sent.frame.has_assign_shard()) told.emplace_back(sent.link.value(), false);
    if (!sent.frame.has_vocabulary()) continue;
    told.emplace_back(sent.link.value(), true);
    EXPECT_EQ(sent.frame.vocabulary().text(), "ab");
    EXPECT_EQ(sent.frame.epoch(), epoch());
  }
  EXPECT_EQ(told, (std::vector<std::pair<uint64_t, bool>>{{1, false}, {2, false}, {2, true}}));
}

TEST_F(EngineGrammarTest, TheSourceTravelsOnceWithItsSequence) {
  Serve(Options(1));
  Turn();
  actions_.clear();
  ArriveByGrammar(1);
  Turn();
  int sources = 0, plans = 0;
  for (int step = 0; step < 4; ++step) {
    for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
      if (!sent.frame.has_step_plan()) continue;
      ++plans;
      for (const v1::NewSequence& added : sent.frame.step_plan().new_sequences()) {
        sources += added.sampling().grammar().text() == "ab*" ? 1 : 0;
      }
      const v1::StepPlan plan = sent.frame.step_plan();
      actions_.clear();
      Send(1, ResultOf(epoch(), plan));
      break;
    }
    Turn();
  }
  EXPECT_EQ(plans, 4);
  EXPECT_EQ(sources, 1);
}

TEST_F(EngineGrammarTest, ARowWithoutATokenEndsItsRequestAlone) {
  for (const auto& [code, expected] : std::map<absl::StatusCode, absl::StatusCode>{
           {absl::StatusCode::kFailedPrecondition, absl::StatusCode::kFailedPrecondition},
           {absl::StatusCode::kInvalidArgument, absl::StatusCode::kInvalidArgument},
           {absl::StatusCode::kResourceExhausted, absl::StatusCode::kResourceExhausted},
           {absl::StatusCode::kOk, absl::StatusCode::kInternal},
           {absl::StatusCode::kUnauthenticated, absl::StatusCode::kInternal}}) {
    Serve(Options(1));
    Turn();
    actions_.clear();
    ArriveByGrammar(1);
    Arrive(2, 5, 9);
    Turn();
    for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
      if (!sent.frame.has_step_plan()) continue;
      v1::Frame result = ResultOf(epoch(), sent.frame.step_plan());
      v1::StepResult& step = *result.mutable_step_result();
      ASSERT_EQ(step.sampled_size(), 2);
      v1::UndrawnRow& row = *step.add_undrawn();
      row.set_sequence(step.sampled(0).sequence());
      row.set_code(static_cast<int32_t>(code));
      row.set_message("no token for position 0");
      step.mutable_sampled()->erase(step.sampled().begin());
      actions_.clear();
      Send(1, result);
      break;
    }
    const auto ended = ActionsOf<FinishRequest>();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].request, RequestId(1));
    EXPECT_EQ(ended[0].status.code(), expected);
    EXPECT_THAT(std::string(ended[0].status.message()), ::testing::HasSubstr("position 0"));
    actions_.clear();
  }
}

}  // namespace
}  // namespace tutti::coordinator
