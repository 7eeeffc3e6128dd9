#include "coordinator/pipeline/retiring.h"

#include <gtest/gtest.h>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

class RetiringTest : public testing::Test {
 protected:
  RetiringTest() {
    replicas_.push_back(std::make_unique<Replica>(PipelineId(0), &options_, fleet_.membership(),
                                                  &epoch_, &check_, &directory_, &answers_));
    accepting_ = retiring_.Add();
  }
  const Replica& replica() const { return *replicas_.front(); }

  const Instant now_ = Instant() + std::chrono::hours(1);
  EngineOptions options_ = TinyEngineOptions(1);
  Fleet fleet_{&options_};
  ShardCheck check_{&options_};
  KvDirectory directory_{{.model_fingerprint = "print", .dtype = "bf16"}};
  FinishedAnswers answers_;
  Epoch epoch_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  Retiring retiring_{&fleet_, &replicas_};
  const bool* accepting_ = nullptr;
};

TEST_F(RetiringTest, APipelineOfTheLastWorkersTakesWhatNobodyElseCan) {
  EXPECT_TRUE(retiring_.IsOpen(replica()));
  retiring_.Begin(replica(), "w1 is leaving");
  EXPECT_FALSE(retiring_.IsOpen(replica())) << "nothing takes its place";
  EXPECT_FALSE(retiring_.Update(/*draining=*/true, now_));
  EXPECT_TRUE(*accepting_);
  EXPECT_EQ(retiring_.WhyEnd(replica(), false), "") << "it does not serve";
  retiring_.Cancel(replica());
  EXPECT_TRUE(retiring_.IsOpen(replica()));
}

TEST_F(RetiringTest, OthersTakeWhatIsNewWhereAPipelineCanForm) {
  std::vector<Action> actions;
  fleet_.HandleJoin({LinkKey(1), TinyHello("w1")}, 1, now_, &actions);
  retiring_.Begin(replica(), "w2 is leaving");
  EXPECT_TRUE(retiring_.Update(/*draining=*/false, now_));
  EXPECT_FALSE(*accepting_);
  EXPECT_TRUE(retiring_.IsOpen(replica())) << "its successor's requests are taken";
  EXPECT_FALSE(retiring_.Update(/*draining=*/false, now_)) << "nothing is new";
  EXPECT_TRUE(retiring_.Update(/*draining=*/true, now_));
  EXPECT_TRUE(*accepting_);
}

TEST_F(RetiringTest, ItGoesOnWhenNoneOfItsWorkersGoes) {
  std::vector<Action> actions;
  fleet_.HandleJoin({LinkKey(1), TinyHello("w1")}, 1, now_, &actions);
  Worker* const worker = fleet_.Find(LinkKey(1));
  worker->pipeline = 0;
  worker->drained = true;
  retiring_.Begin(replica(), "w1 is drained");
  retiring_.KeepIfNobodyGoes(replica());
  EXPECT_FALSE(retiring_.IsOpen(replica()));
  worker->drained = false;
  retiring_.KeepIfNobodyGoes(replica());
  EXPECT_TRUE(retiring_.IsOpen(replica()));
}

}  // namespace
}  // namespace tutti::coordinator
