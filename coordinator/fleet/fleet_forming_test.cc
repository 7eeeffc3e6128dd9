// The formations of the fleet alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/fleet/fleet_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(FleetTest, FormsWhenEnoughHaveJoined) {
  Start();
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)), ElementsAre(HasSubstr("0 of 2 have joined")));
  EXPECT_FALSE(fleet_->FormingIsDue(now_)) << "nothing has changed";
  Join(1, "w1");
  EXPECT_TRUE(fleet_->FormingIsDue(now_));
  const FormingResult waits = Form({Wants(0)});
  EXPECT_FALSE(waits.complete);
  EXPECT_FALSE(waits.outcomes.at(0).notice.has_value()) << "no news while they start";
  Join(2, "w2");
  const FormingResult formed = Form({Wants(0)});
  EXPECT_TRUE(formed.complete);
  EXPECT_EQ(formed.outcomes.at(0).pipeline, PipelineId(0));
  EXPECT_THAT(Names(formed.outcomes.at(0)), ElementsAre("w1", "w2"));
  EXPECT_FALSE(fleet_->FormingIsDue(now_));
  fleet_->HandlePipelineEnd();
  EXPECT_TRUE(fleet_->FormingIsDue(now_));
}

// Two pipelines of two: the pause of one worker keeps nobody else from forming.
TEST_F(FleetTest, AWorkerThatPausesIsNotChosenAndOthersAre) {
  options_.num_pipelines = 2;
  Start();
  for (uint64_t link = 1; link <= 4; ++link) Join(link, "w" + std::to_string(link));
  fleet_->faults()->OnFailure("w1", now_);
  fleet_->faults()->OnFailure("w1", now_);
  const Instant pause_end = now_ + FormBackOff(2);
  const FormingResult result = Form({Wants(0), Wants(1)});
  EXPECT_FALSE(result.complete);
  ASSERT_EQ(result.outcomes.size(), 2u);
  EXPECT_THAT(Names(result.outcomes[0]), ElementsAre("w2", "w3"));
  EXPECT_THAT(Names(result.outcomes[1]), ElementsAre("pausing after a failure of w1"));
  EXPECT_FALSE(fleet_->FormingIsDue(now_));
  EXPECT_EQ(fleet_->next_deadline(), std::min(pause_end, now_ + options_.lease));
  now_ = pause_end;
  EXPECT_TRUE(fleet_->FormingIsDue(now_));
  EXPECT_THAT(Names(Form({Wants(1)}, {.any = true}).outcomes.at(0)), ElementsAre("w1", "w4"));
}

TEST_F(FleetTest, TwoWhoseLinkFailedAreNotPutSideBySideIfThereIsASpare) {
  Start();
  for (uint64_t link = 1; link <= 3; ++link) Join(link, "w" + std::to_string(link));
  fleet_->faults()->OnLinkFailure("w1", "w2", "no address", now_);
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)), ElementsAre("w1", "w3"));
}

TEST_F(FleetTest, TwoWhoseLinkFailedAreTriedAgainWithoutASpare) {
  Start();
  Join(1, "w1");
  Join(2, "w2");
  fleet_->faults()->OnLinkFailure("w1", "w2", "no address", now_);
  fleet_->faults()->OnLinkFailure("w1", "w2", "no address", now_);
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)),
              ElementsAre("waiting to try again: no address"));
  now_ += FormBackOff(2);
  EXPECT_TRUE(fleet_->FormingIsDue(now_));
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)), ElementsAre("w1", "w2"));
}

TEST_F(FleetTest, AWorkerThatLeavesIsNotChosen) {
  Start();
  for (uint64_t link = 1; link <= 3; ++link) Join(link, "w" + std::to_string(link));
  fleet_->HandleLeaving(Find(1));
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)), ElementsAre("w2", "w3"));
}

TEST_F(FleetTest, TwoPipelinesShareNoWorker) {
  options_.num_pipelines = 2;
  Start();
  for (uint64_t link = 1; link <= 3; ++link) Join(link, "w" + std::to_string(link));
  const FormingResult result = Form({Wants(0), Wants(1)});
  EXPECT_FALSE(result.complete);
  ASSERT_EQ(result.outcomes.size(), 2u);
  EXPECT_THAT(Names(result.outcomes[0]), ElementsAre("w1", "w2"));
  EXPECT_THAT(Names(result.outcomes[1]), ElementsAre(HasSubstr("1 of 2 are free")));
}

TEST_F(FleetTest, AsManyPipelinesAsTheWorkersAllow) {
  options_.num_pipelines = 0;
  Start();
  for (uint64_t link = 1; link <= 5; ++link) Join(link, "w" + std::to_string(link));
  const FormingResult result = Form({Wants(0)});
  ASSERT_EQ(result.outcomes.size(), 2u);
  EXPECT_EQ(result.outcomes[0].pipeline, PipelineId(0));
  EXPECT_EQ(result.outcomes[1].pipeline, std::nullopt) << "one more than there was";
  EXPECT_THAT(Names(result.outcomes[1]), ElementsAre("w3", "w4"));
  v1::GetStatusResponse status;
  fleet_->FillStatus(now_, &status);
  ASSERT_EQ(status.idle_workers_size(), 1);
  EXPECT_EQ(status.idle_workers(0).worker_id(), "w5");
}

// Else a reduced one stays so: those that could have made it whole have a pipeline of their own.
TEST_F(FleetTest, NoMorePipelinesWhileOneIsReduced) {
  options_.num_pipelines = 0;
  Start();
  Join(1, "w1");
  Join(2, "w2");
  ASSERT_TRUE(Form({Wants(0)}).complete);
  Join(3, "w3");
  Join(4, "w4");
  EXPECT_THAT(Form({}, {.any = true, .any_reduced = true}).outcomes, IsEmpty());
  const FormingResult result = Form({}, {.any = true});
  ASSERT_EQ(result.outcomes.size(), 1u);
  EXPECT_THAT(Names(result.outcomes[0]), ElementsAre("w3", "w4"));
}

TEST_F(FleetTest, AMappedLayoutWaitsForMinWorkers) {
  auto map =
      placement::ParseDeviceMap(R"([{"worker":1,"layers":4}])", "map.json", options_.model, -1);
  ASSERT_TRUE(map.ok()) << map.status();
  options_.device_map = *std::move(map);
  options_.min_workers = 3;
  Start();
  Join(1, "w1");
  Join(2, "w9");
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)),
              ElementsAre(HasSubstr("2 of at least 3 have joined (--min-workers)")));
  now_ += 2 * kJoinQuiet;
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)), ElementsAre(HasSubstr("2 of at least 3")));
  Join(3, "w2");
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)), ElementsAre("w2"))
      << "number 1 of three, though w9 was the second to come";
}

TEST_F(FleetTest, AnOpenLayoutIsDecidedWhenTheFleetIsQuiet) {
  options_.num_stages = 0;
  Start();
  Join(1, "w1");
  now_ += kJoinQuiet / 2;
  Join(2, "w2");
  EXPECT_THAT(Names(Form({Wants(0)}).outcomes.at(0)), ElementsAre(HasSubstr("2 workers have")));
  EXPECT_THAT(ActionsOf<Notice>(actions_), IsEmpty());
  now_ += kJoinQuiet;
  EXPECT_TRUE(fleet_->FormingIsDue(now_));
  EXPECT_TRUE(Form({Wants(0)}).complete);
  ASSERT_EQ(ActionsOf<Notice>(actions_).size(), 1u);
  EXPECT_THAT(ActionsOf<Notice>(actions_)[0].text, HasSubstr("layout: "));
}

// One of three restarts every 1.5 s and never lets the fleet be quiet.
TEST_F(FleetTest, AWorkerThatComesAndGoesDoesNotKeepALayoutFromBeingChosen) {
  options_.num_stages = 0;
  Start();
  Join(1, "w1");
  Join(2, "w2");
  uint64_t link = 2;
  const Instant begin = now_;
  bool formed = false;
  while (!formed && now_ < begin + std::chrono::seconds(60)) {
    Join(++link, "w3");
    formed = Form({Wants(0)}).complete;
    now_ += milliseconds(1400);
    if (!formed) formed = Form({Wants(0)}).complete;
    if (formed) break;
    fleet_->Remove(LinkKey(link), now_);
    now_ += milliseconds(100);
  }
  EXPECT_TRUE(formed);
  EXPECT_LT(Seconds(now_ - begin), 8) << "it left twice, and then two seconds were quiet";
  ASSERT_EQ(ActionsOf<Notice>(actions_).size(), 1u);
  EXPECT_THAT(ActionsOf<Notice>(actions_)[0].text, HasSubstr("for 2 workers"));
}

TEST_F(FleetTest, ALayoutIsChosenThoughNewWorkersComeAllTheTime) {
  options_.num_stages = 0;
  Start();
  const Instant begin = now_;
  uint64_t link = 0;
  bool formed = false;
  for (; !formed && link < 100; now_ += milliseconds(1000)) {
    ++link;
    Join(link, "w" + std::to_string(link));
    formed = Form({Wants(0)}).complete;
  }
  EXPECT_TRUE(formed);
  EXPECT_LE(now_ - begin, kJoinWaitMax + milliseconds(1000));
}

TEST_F(FleetTest, ARefusalIsToldOnceUntilOneForms) {
  options_.model = tests::TinyModel(400);
  options_.num_stages = 1;
  Start();
  Join(1, "w1", int64_t{4} << 20);
  EXPECT_TRUE(Form({Wants(0)}).outcomes.at(0).notice.has_value());
  EXPECT_FALSE(Form({Wants(0)}).outcomes.at(0).notice.has_value()) << "said already";
  Join(2, "w2", int64_t{64} << 20);
  EXPECT_TRUE(Form({Wants(0)}).complete);
  fleet_->Remove(LinkKey(2), now_);
  EXPECT_TRUE(Form({Wants(0)}).outcomes.at(0).notice.has_value()) << "news again";
}

TEST_F(FleetTest, AnIdleWorkerLetsGoOfItsShardOnce) {
  options_.num_stages = 1;
  Start();
  Join(1, "w1");
  Join(2, "w2");
  Find(2)->holds_shard = true;
  Find(2)->shard_epoch = Epoch(3);
  EXPECT_TRUE(Form({Wants(0)}).complete);
  actions_.clear();
  Fleet::ReleaseShard(Find(2), &actions_);
  const std::vector<SendToWorker> sent = ActionsOf<SendToWorker>(actions_);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].link, LinkKey(2));
  EXPECT_TRUE(sent[0].frame.has_release());
  EXPECT_EQ(sent[0].frame.epoch(), 3u);
  Fleet::ReleaseShard(Find(2), &actions_);
  EXPECT_EQ(ActionsOf<SendToWorker>(actions_).size(), 1u) << "once";
}

// ---- with fewer workers than the layout says

TEST_F(FleetTest, OneThatHasServedFormsOfThoseThatAreLeft) {
  options_ = TinyEngineOptions(/*stages=*/3);
  options_.lease = std::chrono::minutes(1);
  Start();
  Join(1, "w1");
  Join(2, "w2");
  EXPECT_FALSE(Form({Wants(0)}).complete) << "it has never served: the third may still come";
  const WaitingPipeline ended{PipelineId(0), now_};
  EXPECT_FALSE(Form({ended}).complete);
  EXPECT_EQ(fleet_->next_deadline(), now_ + options_.reform_after);
  now_ += options_.reform_after;
  const FormingResult result = Form({ended});
  ASSERT_TRUE(result.complete);
  const Formation& formation = *result.outcomes[0].formation;
  EXPECT_TRUE(formation.reduced);
  EXPECT_EQ(formation.placement.stages.size(), 2u);
}

TEST_F(FleetTest, ItGrowsAgainWhenOneHasComeToStay) {
  options_ = TinyEngineOptions(/*stages=*/2);
  Start();
  Join(1, "w1");
  const WaitingPipeline ended{PipelineId(0), now_ - options_.reform_after};
  ASSERT_TRUE(Form({ended}).complete);
  EXPECT_FALSE(fleet_->CanGrow({Find(1)}, now_));
  Find(1)->pipeline = 0;
  Join(2, "w2");
  EXPECT_FALSE(fleet_->CanGrow({Find(1)}, now_)) << "it has only just come";
  EXPECT_EQ(fleet_->next_deadline(), std::min(now_ + options_.reform_after, now_ + options_.lease));
  now_ += options_.reform_after;
  EXPECT_TRUE(fleet_->FormingIsDue(now_));
  EXPECT_TRUE(fleet_->CanGrow({Find(1)}, now_));
}

// Its streams would wait for the link, while the pipeline of fewer serves them.
TEST_F(FleetTest, ItGrowsWhenTheLinkThatItNeedsMayBeTried) {
  options_ = TinyEngineOptions(/*stages=*/2);
  Start();
  Join(1, "w1");
  ASSERT_TRUE(Form({{PipelineId(0), now_ - options_.reform_after}}).complete);
  Find(1)->pipeline = 0;
  Join(2, "w2");
  now_ += options_.reform_after;
  for (int failures = 0; failures < 5; ++failures) {
    fleet_->faults()->OnLinkFailure("w1", "w2", "refused", now_);
    fleet_->faults()->OnLinkFailure("w2", "w1", "refused", now_);
  }
  const Instant pause_end = fleet_->faults()->FindLinkFault("w1", "w2", now_)->pause_end;
  ASSERT_GT(pause_end, now_);
  EXPECT_FALSE(fleet_->CanGrow({Find(1)}, now_));
  Form({}, {.any = true, .any_reduced = true});
  EXPECT_FALSE(fleet_->FormingIsDue(now_));
  now_ = pause_end;
  EXPECT_TRUE(fleet_->FormingIsDue(now_)) << "it was forgotten";
  EXPECT_TRUE(fleet_->CanGrow({Find(1)}, now_));
}

// It stays at last: nothing else happens that would have the fleet look again.
TEST_F(FleetTest, OneThatCameAndWentIsWaitedFor) {
  options_ = TinyEngineOptions(/*stages=*/2);
  Start();
  Join(1, "w1");
  ASSERT_TRUE(Form({{PipelineId(0), now_ - options_.reform_after}}).complete);
  Find(1)->pipeline = 0;
  const Instant began = now_;
  for (const uint64_t link : {2, 3}) {
    Join(link, "w2");
    fleet_->Remove(LinkKey(link), now_);
  }
  Join(4, "w2");
  EXPECT_FALSE(fleet_->CanGrow({Find(1)}, now_));
  EXPECT_THAT(Form({}, {.any = true, .any_reduced = true}).outcomes, IsEmpty());
  EXPECT_FALSE(fleet_->FormingIsDue(now_));
  now_ = began + kComeAndGoTime;
  EXPECT_TRUE(fleet_->FormingIsDue(now_)) << "it was forgotten";
  EXPECT_TRUE(fleet_->CanGrow({Find(1)}, now_));
}

}  // namespace
}  // namespace tutti::coordinator
