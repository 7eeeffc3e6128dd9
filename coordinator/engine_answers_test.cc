// What finished answers say of later ones: to whom, and to whom not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/fail_point.h"
#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr Hash128 kAcme = {1, 1}, kBolt = {2, 2};

class EngineAnswersTest : public EngineTest {
 protected:
  static EngineOptions Options() {
    EngineOptions options = TinyEngineOptions(1);
    options.guesses_max = kGuessesMax;
    return options;
  }
  // A question that is the same each time, and no token of it stands twice.
  Request Ask(Hash128 owner, Hash128 domain) {
    Request request;
    request.id = RequestId(++last_id_);
    for (TokenId id = 100; id < 120; ++id) request.prompt.push_back(id);
    request.owner = owner;
    request.cache_domain = domain;
    request.max_tokens = 1'000;
    return request;
  }
  // The answer to it.
  static TokenId Answer(size_t place) { return static_cast<TokenId>(200 + place); }

  // A step of the only plan that is sent now: as many of the answer's tokens as it brings.
  void Step() {
    actions_.clear();
    Turn();
    for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
      const v1::StepPlan& plan = sent.frame.step_plan();
      ASSERT_EQ(plan.scheduled_size(), 1);
      const v1::ScheduledSequence& one = plan.scheduled(0);
      guesses_.insert(guesses_.end(), one.guesses().begin(), one.guesses().end());
      v1::Frame frame = ResultFrame(sent.frame.epoch(), plan.step());
      frame.mutable_step_result()->mutable_done()->set_compute_us(1000);
      for (int i = 0; one.sample() && i <= one.guesses_size(); ++i) {
        v1::SampledToken* const sampled = frame.mutable_step_result()->add_sampled();
        sampled->set_sequence(one.sequence());
        sampled->set_position(one.expected_tokens() + i);
        sampled->set_token(Answer(static_cast<size_t>(sampled->position() - 20)));
        if (i < one.guesses_size() && one.guesses(i) != sampled->token()) break;
      }
      Send(sent.link.value(), frame);
    }
  }
  // Computes the request to its end at so many tokens; what was guessed of it.
  std::vector<TokenId> Run(Request request, int32_t max_tokens = 40) {
    request.max_tokens = max_tokens;
    return Run(RequestArrived{request});
  }
  std::vector<TokenId> Run(RequestArrived arrived) {
    guesses_.clear();
    Give(std::move(arrived));
    for (int step = 0; step < 50 && ActionsOf<FinishRequest>().empty(); ++step) Step();
    const auto finishes = ActionsOf<FinishRequest>();
    EXPECT_THAT(finishes, SizeIs(1));
    actions_.clear();
    return guesses_;
  }
  // What was guessed of Bolt's answer after Acme's, which is the same.
  std::vector<TokenId> GuessedOfAnother() {
    Serve(Options());
    Run(Ask(kAcme, kAcme));
    return Run(Ask(kBolt, kBolt));
  }

  uint64_t last_id_ = 0;
  std::vector<TokenId> guesses_;
};

TEST_F(EngineAnswersTest, TheNextAnswerIsGuessedFromTheOneBefore) {
  Serve(Options());
  EXPECT_THAT(Run(Ask(kAcme, kAcme)), IsEmpty());
  const std::vector<TokenId> guessed = Run(Ask(kAcme, kAcme));
  ASSERT_GT(guessed.size(), 20u);
  for (size_t i = 1; i < guessed.size(); ++i) EXPECT_GE(guessed[i], 200);
  const v1::PipelineStatus status = Status().pipelines(0);
  for (const v1::GuessSourceStatus& source : status.guess_sources()) {
    const bool answers = source.source() == "answers";
    EXPECT_EQ(source.guessed_tokens(), answers ? guessed.size() : 0) << source.source();
    EXPECT_GE(source.right_tokens(), answers ? 20u : 0u) << source.source();
  }
}

TEST_F(EngineAnswersTest, NeverAcrossTenants) {
  EXPECT_THAT(GuessedOfAnother(), IsEmpty());
  // Where prompts are shared by all, answers are not.
  Serve(Options());
  Run(Ask(kAcme, {}));
  EXPECT_THAT(Run(Ask(kBolt, {})), IsEmpty());
  EXPECT_THAT(Run(Ask({}, {})), IsEmpty()) << "nobody's";
  EXPECT_THAT(Run(Ask({}, {})), IsEmpty());
  EXPECT_GT(Run(Ask(kAcme, {})).size(), 20u);
}

TEST_F(EngineAnswersTest, ABugThatCrossesTenantsIsSeen) {
  const ScopedFailPoint armed("coordinator.answers_of_others");
  EXPECT_GT(GuessedOfAnother().size(), 20u);
}

TEST_F(EngineAnswersTest, NotAcrossSaltsOfATenant) {
  Serve(Options());
  Run(Ask(kAcme, {1, 7}));
  EXPECT_THAT(Run(Ask(kAcme, {2, 7})), IsEmpty());
  EXPECT_THAT(Run(Ask(kAcme, kAcme)), IsEmpty());
  EXPECT_GT(Run(Ask(kAcme, {1, 7})).size(), 20u);
}

TEST_F(EngineAnswersTest, NothingIsKeptWherePrefixesAreNot) {
  EngineOptions options = Options();
  options.enable_prefix_caching = false;
  Serve(options);
  Run(Ask(kAcme, kAcme));
  EXPECT_THAT(Run(Ask(kAcme, kAcme)), IsEmpty());
}

TEST_F(EngineAnswersTest, WhoWantsNoGuessesGivesNone) {
  Serve(Options());
  Request request = Ask(kAcme, kAcme);
  request.guesses_max = 0;
  EXPECT_THAT(Run(request), IsEmpty());
  EXPECT_THAT(Run(Ask(kAcme, kAcme)), IsEmpty());
  // And where the operator has none, those who ask for some.
  EngineOptions options = Options();
  options.guesses_max = 0;
  Serve(options);
  for (int time = 0; time < 2; ++time) {
    request = Ask(kAcme, kAcme);
    if (time == 1) request.guesses_max = kGuessesMax;
    Run(request);
    request = Ask(kAcme, kAcme);
    request.guesses_max = kGuessesMax;
    EXPECT_EQ(Run(request).empty(), time == 0);
  }
}

// An answer that is told to end well is kept as one that ends by itself; what breaks off is not.
TEST_F(EngineAnswersTest, OnlyWhatEndsWellIsKept) {
  for (const bool stop_string : {false, true}) {
    Serve(Options());
    const Request request = Ask(kAcme, kAcme);
    Give(RequestArrived{request});
    for (int step = 0; step < 30; ++step) Step();
    Give(RequestCancelled{request.id,
                          stop_string ? CancelCause::kStopString : CancelCause::kClientGone});
    EXPECT_THAT(ActionsOf<FinishRequest>(), SizeIs(1));
    actions_.clear();
    EXPECT_EQ(Run(Ask(kAcme, kAcme)).empty(), !stop_string);
  }
}

TEST_F(EngineAnswersTest, AllPipelinesHaveThem) {
  EngineOptions options = Options();
  options.num_pipelines = 2;
  Serve(options, 2);
  Run(Ask(kAcme, kAcme));
  const int32_t first = Status().pipelines(0).steps() > Status().pipelines(1).steps() ? 0 : 1;
  // The pipeline that has the answer goes: its prefix does too.
  Give(WorkerLost{LinkKey(static_cast<uint64_t>(first) + 1), absl::UnavailableError("gone")});
  EXPECT_GT(Run(Ask(kAcme, kAcme)).size(), 20u);
}

}  // namespace
}  // namespace tutti::coordinator
