#include "coordinator/requests/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Verdict = Suspicion::Verdict;

// One pipeline, and a sequence whose ten rows are under way.
class SuspectsTest : public testing::Test {
 protected:
  SuspectsTest() {
    sequence_.request.id = RequestId(1);
    sequence_.request.max_tokens = 5;
    sequence_.arrival = 1;
    sequence_.tokens.resize(10, 3);
    sequence_.prompt_tokens = 10;
    sequence_.pipeline = 0;
    targets_.push_back({.scheduler = &scheduler_});
    Run();
  }
  void Run() {
    scheduler_.BeginEpoch(/*num_stages=*/1, /*num_blocks=*/8);
    scheduler_.Enqueue(&sequence_);
    v1::StepPlan plan;
    ASSERT_TRUE(scheduler_.Plan(now_, &plan));
  }
  void Lose(LossCause cause) {
    const auto loss = suspects_.BeginLoss(cause, "w1", "w1 was lost", now_);
    if (loss.has_value()) suspects_.Accuse(*loss, &sequence_, scheduler_);
    scheduler_.EndEpoch();
    scheduler_.PopWaiting();
  }

  const Instant now_ = Instant() + std::chrono::hours(1);
  Scheduler scheduler_{{.max_sequences = 2}};
  std::vector<AdmissionTarget> targets_;
  Suspects suspects_{&targets_, {1, 2}};
  Sequence sequence_;
};

TEST_F(SuspectsTest, WhoJoinsAgainSaysHowItWasLost) {
  for (const bool same_process : {true, false}) {
    Lose(LossCause::kClosed);
    EXPECT_FALSE(suspects_.OnJoined("w2", false).has_value());
    const std::optional<LossFinding> finding = suspects_.OnJoined("w1", same_process);
    ASSERT_TRUE(finding.has_value());
    EXPECT_EQ(finding->died, !same_process);
    EXPECT_THAT(finding->accused, ElementsAre(RequestId(1)));
    EXPECT_FALSE(suspects_.OnJoined("w1", same_process).has_value()) << "told once";
    Run();
  }
}

TEST_F(SuspectsTest, WhoDoesNotComeBackHasDiedIfItsLinkClosed) {
  for (const LossCause cause : {LossCause::kClosed, LossCause::kSilent}) {
    Lose(cause);
    EXPECT_EQ(suspects_.next_deadline(), now_ + kVerdictPatience);
    EXPECT_THAT(suspects_.FindOverdue(now_), IsEmpty());
    const Duration stall = std::chrono::seconds(3);
    suspects_.Forgive(stall);
    EXPECT_THAT(suspects_.FindOverdue(now_ + kVerdictPatience), IsEmpty());
    const std::vector<LossFinding> overdue = suspects_.FindOverdue(now_ + kVerdictPatience + stall);
    ASSERT_EQ(overdue.size(), 1u);
    EXPECT_EQ(overdue[0].died, cause == LossCause::kClosed);
    EXPECT_EQ(suspects_.next_deadline(), kInstantNever);
    Run();
  }
}

TEST_F(SuspectsTest, NobodyIsAccusedOfALossOfNobody) {
  Lose(LossCause::kNobody);
  EXPECT_TRUE(sequence_.suspicion.empty());
  EXPECT_EQ(suspects_.next_deadline(), kInstantNever);
}

TEST_F(SuspectsTest, APipelineIsASuspectsAlone) {
  for (int i = 0; i < 2; ++i) {
    Lose(LossCause::kFailed);
    if (i == 0) Run();
  }
  EXPECT_EQ(sequence_.suspicion.verdict(), Verdict::kSuspect);
  scheduler_.BeginEpoch(/*num_stages=*/1, /*num_blocks=*/8);
  EXPECT_TRUE(suspects_.TakesOthers(0));
  suspects_.Wait(&sequence_);
  ASSERT_EQ(suspects_.Next(), &sequence_);
  ASSERT_EQ(suspects_.FindTarget(), 0u);
  const uint64_t version = suspects_.version();
  suspects_.Begin(&sequence_, 0);
  EXPECT_NE(suspects_.version(), version);
  EXPECT_FALSE(suspects_.TakesOthers(0));
  EXPECT_TRUE(suspects_.IsAlone(sequence_));
  EXPECT_THAT(suspects_.FindCleared(), IsEmpty());
  sequence_.suspicion.OnComputed(10);
  EXPECT_THAT(suspects_.FindCleared(), ElementsAre(0u));
  suspects_.LetOthersIn(0);
  EXPECT_TRUE(suspects_.TakesOthers(0));
}

}  // namespace
}  // namespace tutti::coordinator
