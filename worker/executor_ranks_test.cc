// Executors that are ranks of one stage: exchanges within their steps, over links and through
// shared memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "transport/limits.h"
#include "worker/executor_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

// How ranks exchange: over their links, through memory, or some one way and some the other.
enum class Ways { kLinks, kMemory, kBoth };

class RankExecutorTest : public ExecutorTest, public ::testing::WithParamInterface<Ways> {
 protected:
  RankExecutorTest() {
    std::filesystem::create_directory(folder_);
    memory_folder_ = [this](const std::string& id) {
      const bool has_memory =
          GetParam() == Ways::kMemory || (GetParam() == Ways::kBoth && id != "w1");
      return has_memory ? folder_ : "";
    };
  }
  // Nothing is left of the memory that ranks shared.
  ~RankExecutorTest() override { EXPECT_TRUE(std::filesystem::remove(folder_)); }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/ranks.", ::getpid());
};

INSTANTIATE_TEST_SUITE_P(Ways, RankExecutorTest,
                         ::testing::Values(Ways::kLinks, Ways::kMemory, Ways::kBoth),
                         [](const auto& info) {
                           if (info.param == Ways::kLinks) return "Links";
                           return info.param == Ways::kMemory ? "Memory" : "Both";
                         });

// Three times the capacity of the shared memory, both ways at once.
TEST_P(RankExecutorTest, AnExchangeMayBeLargerThanTheMemory) {
  floats_ = 3 * transport::kSharedRingBytes / sizeof(float) + 1;
  Ranks stage = StartRanks(2);
  for (uint64_t step = 1; step <= 3; ++step) {
    for (auto& worker : stage.joined) worker->Send(PlanFrame(1, step, {static_cast<int>(step)}));
    const v1::Frame result = stage.joined[0]->recorder->Await(v1::Frame::kStepResult);
    EXPECT_EQ(result.step_result().sampled(0).token(), static_cast<int>(step) * 3);
  }
}

TEST_P(RankExecutorTest, RanksExchangeWithinTheirSteps) {
  constexpr int kRanks = 4;
  constexpr uint64_t kSteps = 8;
  Ranks stage = StartRanks(kRanks);
  for (uint64_t step = 1; step <= kSteps; ++step) {
    for (auto& worker : stage.joined) worker->Send(PlanFrame(1, step, {static_cast<int>(step)}));
  }
  for (uint64_t step = 1; step <= kSteps; ++step) {
    const v1::StepResult result =
        stage.joined[0]->recorder->Await(v1::Frame::kStepResult).step_result();
    EXPECT_EQ(result.step(), step);
    EXPECT_EQ(result.sampled(0).token(), static_cast<int>(step) * ((1 << kRanks) - 1));
    EXPECT_EQ(result.done().exchange_out().frames(), static_cast<int64_t>(2 * step));
    const v1::StepDone done =
        stage.joined[kRanks - 1]->recorder->Await(v1::Frame::kStepDone).step_done();
    EXPECT_EQ(done.step(), step);
    EXPECT_GT(done.exchange_in().bytes(), 0);
  }
  EXPECT_EQ(stage.joined[1]->recorder->Count(v1::Frame::kStepResult), 0u);
}

// The waiting rank goes on beating and names the other; the other falls silent.
TEST_P(RankExecutorTest, AWaitingRankSaysForWhom) {
  Ranks stage = StartRanks(2);
  gate_.Close();
  for (auto& worker : stage.joined) worker->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  std::string waiting_for;
  for (int i = 0; i < 100 && waiting_for.empty(); ++i) {
    waiting_for = stage.joined[0]->recorder->Await(v1::Frame::kBeat).beat().waiting_for();
  }
  EXPECT_EQ(waiting_for, "w1");
  gate_.Open();
  stage.joined[0]->recorder->Await(v1::Frame::kStepResult);
  for (int i = 0; i < 100 && !waiting_for.empty(); ++i) {
    waiting_for = stage.joined[0]->recorder->Await(v1::Frame::kBeat).beat().waiting_for();
  }
  EXPECT_EQ(waiting_for, "");
}

TEST_P(RankExecutorTest, ANewEpochEndsTheWaitForARankWithoutBlame) {
  Ranks stage = StartRanks(2);
  gate_.Close();
  for (auto& worker : stage.joined) worker->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  stage.joined[0]->Send(Assign(2, 0, 1));
  stage.joined[0]->recorder->Await(v1::Frame::kShardReady);
  stage.joined[0]->recorder->Await(v1::Frame::kShardReady);
  gate_.Open();
  stage.joined[0]->Send(PlanFrame(2, 1, {4}));
  EXPECT_EQ(
      stage.joined[0]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(), 5);
  EXPECT_EQ(stage.joined[0]->recorder->Count(v1::Frame::kFailure), 0u);
}

TEST_P(RankExecutorTest, ALostRankIsNamedWhenTheEpochGoesOn) {
  Ranks stage = StartRanks(2);
  for (auto& worker : stage.joined) worker->Send(PlanFrame(1, 1, {1}));
  stage.joined[0]->recorder->Await(v1::Frame::kStepResult);
  stage.workers[1].reset();
  stage.joined[0]->Send(PlanFrame(1, 2, {1}));  // the step waits for w1, in vain
  EXPECT_THAT(stage.joined[0]->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("rank 1 (w1)"));
}

}  // namespace
}  // namespace tutti::worker
