// Answers that go on, as admission takes them.
#include <gmock/gmock.h>

#include "coordinator/requests/admission_testing.h"

namespace tutti::coordinator {
namespace {

using ::testing::HasSubstr;

class AdmissionResumeTest : public AdmissionTest {
 protected:
  static Request Resumed(uint64_t id, const std::vector<TokenId>& output) {
    Request request = MakeRequest(id);
    request.resumes = true;
    request.output = output;
    return request;
  }
  std::vector<FinishRequest> Ends() { return ActionsOf<FinishRequest>(actions_); }
  v1::RequestCounters Counters() {
    v1::GetStatusResponse status;
    admission_.FillStatus(now_, &status);
    return status.requests();
  }
};

TEST_F(AdmissionResumeTest, GoesOnFromItsTokens) {
  Serve(1);
  Arrive(Resumed(1, {8, 9}));
  EXPECT_TRUE(Ends().empty());
  admission_.BindWaiting(now_, &actions_);
  v1::StepPlan plan;
  ASSERT_TRUE(pipelines_[0]->scheduler.Plan(now_, &plan));
  ASSERT_EQ(plan.new_sequences_size(), 1);
  EXPECT_EQ(plan.new_sequences(0).prompt_tokens(), 10);
  EXPECT_EQ(plan.new_sequences(0).tokens_size(), 12);
  EXPECT_EQ(plan.new_sequences(0).tokens(11), 9);
  EXPECT_EQ(Counters().resumed(), 1u);
  EXPECT_EQ(Counters().prompt_tokens(), 10u);
}

TEST_F(AdmissionResumeTest, AnotherClassIsRefusedUnlessOneIsAwaited) {
  Serve(2);
  pipelines_[0]->numerics = pipelines_[1]->numerics = "here";
  Request request = Resumed(1, {8});
  request.numerics = "there";
  Arrive(request);
  ASSERT_EQ(Ends().size(), 1u);
  EXPECT_EQ(Ends()[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Ends()[0].status.message()), HasSubstr("numerics class there"));
  // Where a pipeline is missing it may be of that class: the request waits for it.
  admission_.RecoverSequences({.pipeline = PipelineId(1), .why = "lost"}, now_, &actions_);
  request.id = RequestId(2);
  Arrive(request);
  EXPECT_EQ(Ends().size(), 1u);
  EXPECT_FALSE(admission_.BindWaiting(now_, &actions_)) << "the other would compute other bits";
  EXPECT_NE(admission_.stranded_until(), kInstantNever);
}

TEST_F(AdmissionResumeTest, AnInexactClassAsksForTheClientsConsent) {
  Serve(1);
  pipelines_[0]->numerics = "fast";
  pipelines_[0]->exact = false;
  Request request = Resumed(1, {8});
  request.numerics = "fast";
  Arrive(request);
  ASSERT_EQ(Ends().size(), 1u);
  EXPECT_EQ(Ends()[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Ends()[0].status.message()), HasSubstr("resume.allow_inexact"));
  request.id = RequestId(2);
  request.allow_inexact = true;
  Arrive(request);
  EXPECT_EQ(Ends().size(), 1u);
  // Also while the pipeline is missing: it returns as what it was.
  admission_.RecoverSequences({.pipeline = PipelineId(0), .why = "lost"}, now_, &actions_);
  request.id = RequestId(3);
  request.allow_inexact = false;
  Arrive(request);
  ASSERT_EQ(Ends().size(), 2u);
  EXPECT_EQ(Ends()[1].status.code(), absl::StatusCode::kFailedPrecondition);
  // A request that has not begun loses nothing.
  Request fresh = MakeRequest(4);
  Arrive(fresh);
  EXPECT_EQ(Ends().size(), 2u);
}

TEST_F(AdmissionResumeTest, TheStreamThatIsTakenOverEndsWithAborted) {
  Serve(1);
  ArriveTogether(MakeRequest(1), 2);
  Request again = Resumed(3, {});
  again.replaces = RequestId(1);
  admission_.HandleRequest({.request = again, .taken_over = RequestId(1), .taken_over_outputs = 2},
                           absl::OkStatus(), now_, &actions_);
  ASSERT_EQ(Ends().size(), 2u);
  for (const FinishRequest& end : Ends()) {
    EXPECT_EQ(end.status.code(), absl::StatusCode::kAborted);
  }
  EXPECT_EQ(admission_.waiting(), 1u);
}

TEST_F(AdmissionResumeTest, IdsThatTheModelDidNotSayAreRefusedWhereItIsKnown) {
  Serve(1);
  Arrive(Resumed(1, {8, 9}));  // it runs, and has these tokens
  Request again = Resumed(2, {8, 7});
  again.replaces = RequestId(1);
  admission_.HandleRequest({.request = again, .taken_over = RequestId(1), .taken_over_outputs = 1},
                           absl::OkStatus(), now_, &actions_);
  ASSERT_EQ(Ends().size(), 1u);
  EXPECT_EQ(Ends()[0].request, RequestId(2));
  EXPECT_EQ(Ends()[0].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Ends()[0].status.message()),
              HasSubstr("resume.outputs[0].ids[1] is 7, the model said 9"));
  EXPECT_EQ(admission_.waiting(), 1u) << "the one that runs is not disturbed";
}

}  // namespace
}  // namespace tutti::coordinator
