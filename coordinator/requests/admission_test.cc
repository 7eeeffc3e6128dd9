#include "coordinator/requests/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "coordinator/requests/admission_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- at the door

TEST_F(AdmissionTest, NothingIsTakenWhileNothingServes) {
  serving_ = absl::UnavailableError("not serving: loading on w2");
  Arrive(MakeRequest(1));
  EXPECT_THAT(Ended(), ElementsAre("1 UNAVAILABLE"));
  EXPECT_EQ(LastMessage(), "not serving: loading on w2");
}

TEST_F(AdmissionTest, WhatWasTakenGoesOnWhileItDrains) {
  Serve(1);
  Arrive(MakeRequest(1));
  admission_.Drain();
  ArriveAndBind(MakeRequest(2));
  EXPECT_THAT(Ended(), ElementsAre("2 UNAVAILABLE"));
  EXPECT_EQ(Bound(0), 1);
}

TEST_F(AdmissionTest, WhatFitsNoContextOrPoolIsRefused) {
  Serve(1, /*blocks=*/4);
  Arrive(MakeRequest(1, 60, 5));
  Arrive(MakeRequest(2, 60, 6));
  Arrive(MakeRequest(3, 4000, 100));
  Arrive(MakeRequest(4, 0, 1));
  EXPECT_THAT(Ended(),
              ElementsAre("2 INVALID_ARGUMENT", "3 INVALID_ARGUMENT", "4 INVALID_ARGUMENT"));
  Request any = MakeRequest(5, 60, 4000);
  any.max_tokens_is_default = true;
  Arrive(any);
  EXPECT_EQ(Ended().size(), 3u) << "its length is lowered to 5";
  any.sampling.set_min_tokens(5);
  any.id = RequestId(6);
  Arrive(any);
  EXPECT_EQ(Ended().size(), 3u);
  any.sampling.set_min_tokens(6);
  any.id = RequestId(7);
  Arrive(any);
  EXPECT_EQ(Ended().size(), 4u) << "not below the least length asked for";
}

TEST_F(AdmissionTest, ADeadlineThatCannotBeMetIsRefusedAtTheDoor) {
  Serve(2);
  StepRate& rate = pipelines_[0]->rate;
  // Steps of 128 rows, 10 ms each: 100 tokens take 7.8 ms.
  for (int step = 0; step < 20; ++step) rate.OnStep(128, false, 1, now_ += milliseconds(10));
  Request request = MakeRequest(1, 100);
  request.deadline = now_ + milliseconds(7);
  Arrive(request);
  EXPECT_THAT(Ended(), IsEmpty()) << "the other pipeline may be as fast as it takes";
  for (int step = 0; step < 20; ++step) {
    pipelines_[1]->rate.OnStep(128, false, 1, now_ += milliseconds(10));
  }
  request.id = RequestId(2);
  request.deadline = now_ + milliseconds(7);
  Arrive(request);
  request.id = RequestId(3);
  request.deadline = now_ + milliseconds(8);
  Arrive(request);
  request.id = RequestId(4);
  request.deadline = now_;
  Arrive(request);
  EXPECT_THAT(Ended(), ElementsAre("2 DEADLINE_EXCEEDED", "4 DEADLINE_EXCEEDED"));
  EXPECT_THAT(LastMessage(), HasSubstr("passed 0 ms before"));
}

// ---- binding

TEST_F(AdmissionTest, ABoundSequenceMakesItsPipelineDue) {
  Serve(2);
  ArriveAndBind(MakeRequest(1));
  EXPECT_EQ(Bound(0), 1);
  EXPECT_THAT(steps_due_.pipelines(), ElementsAre(PipelineId(0)));
  ArriveAndBind(MakeRequest(2));
  EXPECT_EQ(Bound(1), 1) << "there it is first";
  EXPECT_THAT(steps_due_.pipelines(), ElementsAre(PipelineId(0), PipelineId(1)));
}

TEST_F(AdmissionTest, AWaitingSequenceBindsWhenRoomComes) {
  Serve(1);
  for (uint64_t id = 1; id <= 3; ++id) ArriveAndBind(MakeRequest(id));
  EXPECT_EQ(Bound(0), 2);
  EXPECT_EQ(Queued(), 1);
  Bind();
  EXPECT_EQ(Queued(), 1) << "nothing has changed";
  steps_due_.Clear();
  Cancel(1);
  Bind();
  EXPECT_EQ(Queued(), 0);
  EXPECT_EQ(Bound(0), 2);
  EXPECT_THAT(steps_due_.pipelines(), ElementsAre(PipelineId(0)));
}

TEST_F(AdmissionTest, AWaitingSequenceBindsWhenAPipelineBeginsToServe) {
  Serve(1);
  for (uint64_t id = 1; id <= 3; ++id) ArriveAndBind(MakeRequest(id));
  EXPECT_EQ(Queued(), 1);
  Serve(1);
  Bind();
  EXPECT_EQ(Bound(1), 1);
}

// Nothing ends and nothing comes: the blocks that the second shares are published.
TEST_F(AdmissionTest, AWaitingSequenceBindsWhenBlocksThatItSharesAreThere) {
  Serve(1, /*blocks=*/8);
  Request request = MakeRequest(1, 80);
  ArriveAndBind(request);
  request.id = RequestId(2);
  ArriveAndBind(request);
  EXPECT_EQ(Queued(), 1) << "of its five blocks three are left";
  Step(0);
  EXPECT_TRUE(admission_.CanBind());
  Bind();
  EXPECT_EQ(Queued(), 0);
}

TEST_F(AdmissionTest, AnOutputFollowsTheFirstOfItsGroup) {
  Serve(2);
  for (uint64_t id = 1; id <= 3; ++id) {
    Request request = MakeRequest(id);
    request.first_output = RequestId(1);
    ArriveAndBind(std::move(request));
  }
  EXPECT_EQ(Bound(0), 3) << "also beyond the room there is";
  EXPECT_EQ(Bound(1), 0);
}

TEST_F(AdmissionTest, OneThatIsTooLargeForNowIsNotOvertaken) {
  Serve(1, /*blocks=*/8);
  ArriveAndBind(MakeRequest(1, 60, 5));
  Step(0);
  ArriveAndBind(MakeRequest(2, 80, 5));
  ArriveAndBind(MakeRequest(3, 5, 5));
  EXPECT_EQ(Queued(), 2) << "the third has room, and waits behind the second";
  Cancel(1);
  Bind();
  EXPECT_EQ(Queued(), 0);
}

TEST_F(AdmissionTest, APromptGoesWhereItIsCached) {
  Serve(2);
  ArriveAndBind(MakeRequest(1, 64));
  ArriveAndBind(MakeRequest(2, 64));
  Step(1);
  Cancel(1);
  Cancel(2);
  Request again = MakeRequest(3, 64);
  again.prompt = MakeRequest(2, 64).prompt;
  ArriveAndBind(again);
  EXPECT_EQ(Bound(0), 0);
  EXPECT_EQ(Bound(1), 1);
}

TEST_F(AdmissionTest, ADeadlineThatPassesEndsARequestWhereverItIs) {
  Serve(1);
  for (uint64_t id = 1; id <= 3; ++id) {
    Request request = MakeRequest(id);
    request.deadline = now_ + id * milliseconds(10);
    ArriveAndBind(std::move(request));
  }
  EXPECT_EQ(admission_.next_deadline(), now_ + milliseconds(10));
  now_ += milliseconds(30);
  admission_.ExpireDeadlines(now_, &actions_);
  EXPECT_THAT(Ended(),
              ElementsAre("1 DEADLINE_EXCEEDED", "2 DEADLINE_EXCEEDED", "3 DEADLINE_EXCEEDED"));
  EXPECT_EQ(Bound(0) + Queued(), 0);
  EXPECT_EQ(admission_.next_deadline(), kInstantNever);
}

// ---- the end

TEST_F(AdmissionTest, ARequestEndsOnce) {
  Serve(1);
  ArriveAndBind(MakeRequest(1));
  Arrive(MakeRequest(2));
  admission_.HandleCancellation({RequestId(1), CancelCause::kStopString}, now_, &actions_);
  Cancel(2);
  Cancel(2);
  Cancel(9);
  EXPECT_THAT(Ended(), ElementsAre("1 OK", "2 CANCELLED"));
  EXPECT_EQ(Bound(0) + Queued(), 0);
}

// gRPC cancels a call whose deadline has passed, by the client's clock or ours.
TEST_F(AdmissionTest, AClientThatLeavesAtItsDeadlineIsNoCancellation) {
  Serve(1);
  const Instant begin = now_;
  for (uint64_t id = 1; id <= 3; ++id) {
    Request request = MakeRequest(id);
    request.deadline = begin + milliseconds(6400);
    Arrive(std::move(request));
  }
  Arrive(MakeRequest(4));
  now_ = begin + milliseconds(6299);
  Cancel(1);
  now_ = begin + milliseconds(6300);
  Cancel(2);
  now_ = begin + milliseconds(6500);
  Cancel(3);
  Cancel(4);
  EXPECT_THAT(Ended(), ElementsAre("1 CANCELLED", "2 DEADLINE_EXCEEDED", "3 DEADLINE_EXCEEDED",
                                   "4 CANCELLED"));
}

TEST(StepsDueTest, EachPipelineOnceInOrder) {
  StepsDue due;
  for (const uint32_t id : {3u, 1u, 3u, 0u, 1u}) due.Add(PipelineId(id));
  EXPECT_THAT(due.pipelines(), ElementsAre(PipelineId(3), PipelineId(1), PipelineId(0)));
  due.Clear();
  EXPECT_THAT(due.pipelines(), IsEmpty());
  due.Add(PipelineId(1));
  EXPECT_THAT(due.pipelines(), ElementsAre(PipelineId(1)));
}

}  // namespace
}  // namespace tutti::coordinator
