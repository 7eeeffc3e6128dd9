// The places of the admission queue: who needs one, and who gives way when none is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "base/retry_delay.h"
#include "coordinator/limits.h"
#include "coordinator/requests/admission_testing.h"

namespace tutti::coordinator {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class AdmissionPlacesTest : public AdmissionTest {
 protected:
  void Arrive(uint64_t id, uint64_t owner = 0, int32_t outputs = 1, int32_t priority = 0) {
    Request request = MakeRequest(id);
    request.owner.low = owner;
    request.priority = priority;
    ArriveTogether(request, outputs);
    Bind();
  }
};

// ---- who needs a place

// Eight may run: what can run at once needs no place, however few there are.
TEST_F(AdmissionPlacesTest, AnIdleServiceTakesWhatItCanRun) {
  struct Case {
    int32_t outputs;
    int32_t max_waiting;
    bool taken;
  };
  for (const Case& one : {Case{1, 0, true}, Case{8, 0, true}, Case{9, 0, false}, Case{9, 1, true},
                          Case{64, 55, false}, Case{64, 56, true}, Case{64, 64, true}}) {
    SCOPED_TRACE(absl::StrCat(one.outputs, " outputs, ", one.max_waiting, " places"));
    actions_.clear();
    options_.max_waiting = one.max_waiting;
    Admission admission(&options_, &directory_, &steps_due_);
    TestPipeline pipeline({.max_sequences = 8}, nullptr, PipelineId(0));
    admission.AddTarget({.scheduler = &pipeline.scheduler, .rate = &pipeline.rate});
    pipeline.scheduler.BeginEpoch(1, 100);
    RequestArrived arrived{MakeRequest(1)};
    for (int32_t i = 1; i < one.outputs; ++i) {
      arrived.others.push_back(MakeRequest(1));
      arrived.others.back().id = RequestId(static_cast<uint64_t>(i) + 1);
      arrived.others.back().first_output = arrived.request.first_output = RequestId(1);
    }
    admission.HandleRequest(std::move(arrived), absl::OkStatus(), now_, &actions_);
    admission.BindWaiting(now_, &actions_);
    const int32_t bound = pipeline.scheduler.waiting();
    EXPECT_EQ(bound, one.taken ? one.outputs : 0);
    EXPECT_THAT(Ended(), SizeIs(one.taken ? 0 : one.outputs)) << "all or none";
    EXPECT_THAT(Ended(), Each(EndsWith("RESOURCE_EXHAUSTED")));
  }
}

TEST_F(AdmissionPlacesTest, ABusyServiceNeedsAPlaceForEachOutput) {
  Serve(1, /*blocks=*/64, /*sequences=*/2);
  options_.max_waiting = 4;
  Arrive(1, 0, 2);
  Arrive(3, 0, 5);
  EXPECT_THAT(Ended(), SizeIs(5));
  EXPECT_EQ(LastMessage(),
            "no pipeline has room, and 5 of n = 5 outputs would have to wait, where 4 may; "
            "retry after 5 s");
  EXPECT_TRUE(RetryDelayOf(ActionsOf<FinishRequest>(actions_).back().status).has_value());
  Arrive(8, 0, 4);
  EXPECT_EQ(Queued(), 4);
  Arrive(12);
  EXPECT_THAT(Ended(), SizeIs(6));
  EXPECT_EQ(LastMessage(), "4 requests are waiting already; retry after 5 s");
}

// Two run, none may wait: every 800 ms one of them ends.
TEST_F(AdmissionPlacesTest, WhoIsSentAwayIsToldWhenAPlaceComesFree) {
  Serve(1);
  options_.max_waiting = 0;
  uint64_t id = 0;
  const auto arrive = [&] {
    AdmissionTest::Arrive(MakeRequest(++id));
    Bind();
  };
  const auto end = [&](uint64_t which) {
    now_ += std::chrono::milliseconds(800);
    Cancel(which);
    Bind();
  };
  const auto delay = [&] { return RetryDelayOf(ActionsOf<FinishRequest>(actions_).back().status); };
  arrive();
  arrive();
  arrive();
  EXPECT_EQ(delay(), kRetryDelayUnknown);
  end(1);
  arrive();  // 4 runs
  arrive();
  EXPECT_EQ(delay(), std::chrono::milliseconds(800));
  EXPECT_EQ(LastMessage(), "no pipeline has room; retry after 0.8 s");
  arrive();
  EXPECT_EQ(delay(), std::chrono::milliseconds(1600)) << "the second in line";
  end(2);
  arrive();
  arrive();
  EXPECT_EQ(delay(), std::chrono::milliseconds(800));
}

// Two run, one ends every 800 ms: of those that wait three begin within 2.5 s.
TEST_F(AdmissionPlacesTest, WhoWouldWaitForTooLongIsRefused) {
  Serve(1);
  options_.max_wait = std::chrono::milliseconds(2500);
  uint64_t id = 0;
  const auto arrive = [&](int count) {
    for (int i = 0; i < count; ++i) AdmissionTest::Arrive(MakeRequest(++id));
    Bind();
  };
  arrive(10);
  EXPECT_THAT(Ended(), IsEmpty()) << "before anything was measured the number alone counts";
  EXPECT_EQ(Queued(), 8);
  for (uint64_t which = 1; which <= 7; ++which) {
    now_ += std::chrono::milliseconds(800);
    Cancel(which);
    Bind();
  }
  EXPECT_EQ(Queued(), 1);
  actions_.clear();
  arrive(3);
  EXPECT_EQ(Queued(), 3);
  EXPECT_THAT(Ended(), ElementsAre("13 RESOURCE_EXHAUSTED"));
  EXPECT_EQ(LastMessage(),
            "3 requests are waiting already, and no more than 3 could begin within 2.5 s "
            "(--max-wait); retry after 0.8 s");
}

// Requests that came one by one say nothing of how soon others end where many wait.
TEST_F(AdmissionPlacesTest, AQuietTimeIsNoPace) {
  Serve(1);
  options_.max_wait = std::chrono::seconds(10);
  uint64_t id = 0;
  for (int i = 0; i < 5; ++i) {
    AdmissionTest::Arrive(MakeRequest(++id));
    Bind();
    now_ += std::chrono::seconds(20);
    Cancel(id);
    Bind();
  }
  actions_.clear();
  for (int i = 0; i < 3; ++i) {
    AdmissionTest::Arrive(MakeRequest(++id));
    Bind();
    now_ += std::chrono::milliseconds(2500);
  }
  EXPECT_THAT(Ended(), IsEmpty()) << "two run, one waits";
  EXPECT_EQ(Queued(), 1);
}

// Nothing has ended for a while: nobody new may wait, and whoever waits stays.
TEST_F(AdmissionPlacesTest, WhoWaitsStaysWhenThePaceSlowsDown) {
  Serve(1);
  options_.max_wait = std::chrono::seconds(10);
  for (uint64_t id = 1; id <= 9; ++id) AdmissionTest::Arrive(MakeRequest(id));
  Bind();
  now_ += std::chrono::milliseconds(800);
  Cancel(1);
  Bind();
  now_ += std::chrono::minutes(1);
  AdmissionTest::Arrive(MakeRequest(10));
  EXPECT_THAT(Ended(), ElementsAre("1 CANCELLED", "10 RESOURCE_EXHAUSTED"));
  EXPECT_EQ(Queued(), 6);
}

TEST_F(AdmissionPlacesTest, NoPlaceIsNeededByWhatIsBoundInTheSameTurn) {
  Serve(1);
  options_.max_waiting = 2;
  for (uint64_t id = 1; id <= 5; ++id) AdmissionTest::Arrive(MakeRequest(id));
  EXPECT_THAT(Ended(), ElementsAre("5 RESOURCE_EXHAUSTED")) << "two run and two wait";
}

// Eight blocks: a prompt of five, of which outputs share four, leaves room for one more output.
TEST_F(AdmissionPlacesTest, OutputsThatShareBlocksHaveRoomTogether) {
  Serve(1, /*blocks=*/8, /*sequences=*/8);
  options_.max_waiting = 0;
  ArriveTogether(MakeRequest(1, 80, 5), 3);
  EXPECT_THAT(Ended(), SizeIs(3));
  actions_.clear();
  ArriveTogether(MakeRequest(11, 80, 5), 2);
  Bind();
  EXPECT_THAT(Ended(), IsEmpty());
  EXPECT_EQ(Bound(0), 2);
}

// ---- who gives way

TEST_F(AdmissionPlacesTest, OneTenantMayHaveAllPlacesUntilAnotherComes) {
  Serve(1);
  options_.max_waiting = 64;
  Arrive(1, /*owner=*/1, 2);
  Arrive(101, /*owner=*/1, 64);
  EXPECT_EQ(Queued(), 64);
  Arrive(201, /*owner=*/1);
  EXPECT_THAT(Ended(), ElementsAre("201 RESOURCE_EXHAUSTED")) << "it has most itself";
  actions_.clear();
  Arrive(301, /*owner=*/2);
  EXPECT_THAT(Ended(), SizeIs(64)) << "all outputs of a request, or none";
  EXPECT_EQ(LastMessage(),
            "64 requests are waiting, of which this one's owner has most; retry after 5 s");
  EXPECT_EQ(Queued(), 1);
  EXPECT_EQ(Bound(0), 2) << "what runs goes on";
}

TEST_F(AdmissionPlacesTest, EachTenantGetsItsEqualPartAndTheNewestGoFirst) {
  Serve(1);
  options_.max_waiting = 6;
  Arrive(1, 1, 2);
  for (uint64_t id = 11; id <= 16; ++id) Arrive(id, 1);
  for (uint64_t id = 21; id <= 24; ++id) Arrive(id, 2);
  EXPECT_THAT(Ended(), ElementsAre("16 RESOURCE_EXHAUSTED", "15 RESOURCE_EXHAUSTED",
                                   "14 RESOURCE_EXHAUSTED", "24 RESOURCE_EXHAUSTED"));
  actions_.clear();
  Arrive(31, 3, 2);
  EXPECT_THAT(Ended(), ElementsAre("13 RESOURCE_EXHAUSTED", "23 RESOURCE_EXHAUSTED"));
  EXPECT_EQ(Queued(), 6);
}

// Twelve would need the places of all others, and its owner would then have most.
TEST_F(AdmissionPlacesTest, NobodyGivesWayToMore) {
  Serve(1);
  options_.max_waiting = 12;
  Arrive(1, 1, 2);
  Arrive(11, 1, 6);
  Arrive(21, 2, 6);
  Arrive(31, 3, 12);
  EXPECT_THAT(Ended(), SizeIs(12));
  Arrive(51, 3, 6);
  EXPECT_THAT(Ended(), SizeIs(18));
  actions_.clear();
  Arrive(61, 3, 5);
  EXPECT_THAT(Ended(), SizeIs(6));
  EXPECT_EQ(Queued(), 11);
}

TEST_F(AdmissionPlacesTest, NobodyGivesWayToALowerClass) {
  Serve(1);
  options_.max_waiting = 3;
  Arrive(1, 8);
  Arrive(2, 9);
  Step(0);
  Arrive(11, 1, 1, /*priority=*/0);
  Arrive(12, 1, 1, /*priority=*/2);
  Arrive(13, 1, 1, /*priority=*/1);
  Arrive(21, 2, 1, /*priority=*/3);
  Arrive(22, 2, 1, /*priority=*/2);
  EXPECT_THAT(Ended(), ElementsAre("21 RESOURCE_EXHAUSTED", "12 RESOURCE_EXHAUSTED"));
  Arrive(23, 2, 1, /*priority=*/-1);
  EXPECT_THAT(Ended(), SizeIs(3)) << "with two it would have more than the other";
}

// The first output runs, so the others are not undone.
TEST_F(AdmissionPlacesTest, WhatHasBegunDoesNotGiveWay) {
  AdmissionShares shares;
  std::vector<Sequence> outputs(3);
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].request = MakeRequest(i + 1);
    outputs[i].request.first_output = RequestId(1);
    shares.Add(&outputs[i]);
  }
  Request newcomer = MakeRequest(9);
  newcomer.owner.low = 2;
  EXPECT_THAT(shares.FindGivingWay(newcomer, 1, 1), SizeIs(3));
  shares.Remove(&outputs[0]);
  EXPECT_THAT(shares.FindGivingWay(newcomer, 1, 1), IsEmpty());
}

// ---- places of a pipeline

TEST_F(AdmissionPlacesTest, ANewcomerIsBoundWhereOthersGiveWay) {
  Serve(1, /*blocks=*/64, /*sequences=*/4);
  Arrive(1, /*owner=*/1, /*outputs=*/9);
  EXPECT_EQ(Bound(0), 9) << "outputs follow the first";
  Step(0);
  Step(0);
  Arrive(11, /*owner=*/1);
  Arrive(12, /*owner=*/2);
  EXPECT_EQ(Queued(), 0);
  Step(0);
  EXPECT_EQ(pipelines_[0]->scheduler.preemptions(), 2u);
}

TEST_F(AdmissionPlacesTest, ATenantThatRunsNothingOvertakes) {
  Serve(1);
  Arrive(1, 1);
  Arrive(2, 1);
  Step(0);
  Arrive(3, 1);
  EXPECT_EQ(Queued(), 1) << "requests of one owner that run the same";
  Arrive(11, 2);
  EXPECT_EQ(Queued(), 1);
  EXPECT_EQ(Bound(0), 3);
  Step(0);
  EXPECT_EQ(pipelines_[0]->scheduler.running(), 2);
  EXPECT_EQ(pipelines_[0]->scheduler.preemptions(), 1u);
}

// The first in line needs all blocks. Others are served before it until they are no longer level.
TEST_F(AdmissionPlacesTest, TheFirstInLineIsNotOvertakenForLong) {
  Serve(1, /*blocks=*/64, /*sequences=*/8);
  Arrive(1, /*owner=*/1);
  Step(0);
  Request large = MakeRequest(2, 63 * 16);
  large.owner.low = 1;
  AdmissionTest::ArriveAndBind(large);
  EXPECT_EQ(Queued(), 1);
  int32_t overtakes = 0;
  for (uint64_t id = 11; Queued() == 1; ++id) {
    Request request = MakeRequest(id, 500);
    request.owner.low = 2;
    AdmissionTest::ArriveAndBind(request);
    if (Queued() > 1) break;
    ++overtakes;
    ASSERT_LT(overtakes, 100);
    Step(0);
    Cancel(id);
  }
  EXPECT_EQ(overtakes, kLevelTokens / 500 + 1);
  Cancel(1);
  Bind();
  EXPECT_EQ(Queued(), 1) << "its turn has come";
}

}  // namespace
}  // namespace tutti::coordinator
