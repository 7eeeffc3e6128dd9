// A pipeline serves when a first row has gone round all its links, and the link is blamed where it
// has not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class EngineLinkingTest : public EngineTest {
 protected:
  // Workers w1 and following have loaded, and answer no probe.
  void Load(const EngineOptions& options, uint64_t workers, uint64_t loading) {
    answer_probes_ = false;
    Start(options);
    for (uint64_t link = 1; link <= workers; ++link) Join(link, absl::StrCat("w", link));
    Turn();
    actions_.clear();
    for (uint64_t link = 1; link <= loading; ++link) Ready(link);
    Turn();
  }
  void ProbeDone(uint64_t link, bool tells, uint64_t step = 0) {
    v1::Frame frame;
    frame.set_epoch(epoch());
    if (tells) {
      frame.mutable_step_result()->set_step(step);
    } else {
      frame.mutable_step_done()->set_step(step);
    }
    Send(link, frame);
  }
  void SendLinkState(uint64_t link, const std::string& to, const std::string& error,
                     v1::LinkPurpose purpose = v1::LINK_PURPOSE_ACTIVATION) {
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_link_state()->set_worker_id(to);
    frame.mutable_link_state()->set_purpose(purpose);
    frame.mutable_link_state()->set_up(error.empty());
    frame.mutable_link_state()->set_error(error);
    Send(link, frame);
  }
  void Fail(uint64_t link, const std::string& message) {
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_failure()->set_message(message);
    Send(link, frame);
  }
  // Time passes; all workers beat, and nobody gets on.
  void Wait(Duration time, uint64_t workers) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ += milliseconds(250);
      for (uint64_t link = 1; link <= workers; ++link) Beat(link, 0);
      Turn();
    }
  }
  std::string State() { return Status().pipelines(0).state(); }
  std::vector<std::string> Workers() {
    std::vector<std::string> ids;
    const v1::GetStatusResponse status = Status();
    for (const v1::StageStatus& stage : status.pipelines(0).stages()) {
      ids.push_back(stage.worker().worker_id());
    }
    return ids;
  }
};

TEST_F(EngineLinkingTest, ServesWhenARowHasGoneRound) {
  Load(TinyEngineOptions(2), 2, 2);
  EXPECT_EQ(State(), "linking");
  EXPECT_FALSE(Status().serving());
  const auto sent = ActionsOf<SendToWorker>();
  ASSERT_EQ(sent.size(), 2u);
  const v1::StepPlan& probe = sent[1].frame.step_plan();
  EXPECT_TRUE(probe.probe());
  EXPECT_EQ(probe.step(), 0u) << "steps of requests begin with 1";
  EXPECT_EQ(probe.total_rows(), 1);
  actions_.clear();
  Arrive(1, 5, 2);
  EXPECT_THAT(std::string(ActionsOf<FinishRequest>().at(0).status.message()),
              HasSubstr("not serving: linking"));
  ProbeDone(2, /*tells=*/true);
  EXPECT_EQ(State(), "linking") << "the first stage has not said that it is done";
  ProbeDone(1, /*tells=*/false);
  Turn();
  const v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.pipelines(0).state(), "serving");
  EXPECT_EQ(status.pipelines(0).steps(), 0u);
  EXPECT_EQ(status.pipelines(0).blocks_in_use() + status.pipelines(0).blocks_cached(), 0);
  EXPECT_EQ(status.pipelines(0).stages(0).rows(), 0);
  actions_.clear();
  Arrive(2, 5, 2);
  Turn();
  EXPECT_EQ(ActionsOf<SendToWorker>().at(0).frame.step_plan().step(), 1u);
  EXPECT_EQ(ActionsOf<SendToWorker>().at(0).frame.step_plan().finished_size(), 0);
}

TEST_F(EngineLinkingTest, AProbeDoneTwiceOrOfAnotherStepIsRefused) {
  for (const uint64_t step : {0, 1}) {
    Load(TinyEngineOptions(2), 2, 2);
    if (step == 0) ProbeDone(1, false);
    ProbeDone(1, false, step);
    ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
    EXPECT_THAT(std::string(ActionsOf<CloseWorker>()[0].reason.message()), HasSubstr("the probe"));
  }
}

TEST_F(EngineLinkingTest, TheStatusNamesEveryLinkAndItsError) {
  EngineOptions options = TinyEngineOptions(2);
  options.stage_ranks = {2, 1};
  Load(options, 3, 3);
  SendLinkState(1, "w2", "", v1::LINK_PURPOSE_COLLECTIVE);
  SendLinkState(1, "w3", "10.0.0.3:50060: certificate verify failed");
  const v1::GetStatusResponse status = Status();
  ASSERT_EQ(status.pipelines(0).links_size(), 2);
  EXPECT_EQ(status.pipelines(0).links(0).purpose(), "rank");
  EXPECT_TRUE(status.pipelines(0).links(0).up());
  EXPECT_EQ(status.pipelines(0).links(1).from(), "w1");
  EXPECT_EQ(status.pipelines(0).links(1).to(), "w3");
  EXPECT_FALSE(status.pipelines(0).links(1).up());
  EXPECT_THAT(status.why_not_serving(),
              HasSubstr("linking: the activation link from w1 to w3 failed: 10.0.0.3:50060: "
                        "certificate verify failed"));
  SendLinkState(1, "w3", "");
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("the first row is on its way"));
}

TEST_F(EngineLinkingTest, ALinkThatIsNoneOfTheWorkersIsRefused) {
  Load(TinyEngineOptions(2), 2, 2);
  SendLinkState(1, "w7", "");
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_EQ(ActionsOf<CloseWorker>()[0].link, LinkKey(1));
}

// A dead port: the first stage says after its patience that it cannot reach the second. Neither is
// sent away, and a spare takes the place of one.
TEST_F(EngineLinkingTest, ALinkThatCannotBeMadeIsBlamedAndNotItsEnds) {
  Load(TinyEngineOptions(2), 3, 2);
  EXPECT_THAT(Workers(), ElementsAre("w1", "w2"));
  SendLinkState(1, "w2", "127.0.0.1:9: connection refused");
  Fail(1, "activation link to w2 at 127.0.0.1:9: connection refused");
  Turn();
  EXPECT_THAT(ActionsOf<CloseWorker>(), IsEmpty());
  EXPECT_THAT(Workers(), ElementsAre("w1", "w3"));
  EXPECT_THAT(Status().why_not_serving(),
              HasSubstr("before: the activation link from w1 to w2 failed: 127.0.0.1:9: "));
}

// The same as above without a spare: the two are tried again, after pauses, with the reason in the
// status.
TEST_F(EngineLinkingTest, WithoutASpareTheLinkIsTriedAgainAfterPauses) {
  Load(TinyEngineOptions(2), 2, 0);
  int epochs = 0;
  for (const Instant end = now_ + std::chrono::seconds(30); now_ < end;) {
    if (State() == "loading") {
      ++epochs;
      Ready(1);
      Ready(2);
      SendLinkState(1, "w2", "no address");
      Fail(1, "no address");
    }
    EXPECT_THAT(Status().why_not_serving(), HasSubstr("no address"));
    Wait(milliseconds(250), 2);
  }
  EXPECT_THAT(ActionsOf<CloseWorker>(), IsEmpty());
  EXPECT_GE(epochs, 4);
  EXPECT_LE(epochs, 9) << "pauses double up to 16 s";
}

// Nobody says anything: the link into the first worker that has not done the probe.
TEST_F(EngineLinkingTest, ALinkThatSwallowsTheProbeIsBlamed) {
  Load(TinyEngineOptions(2), 3, 2);
  SendLinkState(1, "w2", "");
  ProbeDone(1, false);
  Wait(kLinkingPatience - milliseconds(500), 3);
  EXPECT_EQ(State(), "linking");
  Wait(milliseconds(1000), 3);
  EXPECT_THAT(ActionsOf<CloseWorker>(), IsEmpty());
  EXPECT_THAT(Workers(), ElementsAre("w1", "w3"));
  EXPECT_THAT(Status().why_not_serving(),
              HasSubstr("the activation link from w1 to w2 failed: nothing comes through it"));
}

TEST_F(EngineLinkingTest, AFirstStageThatDoesNotDoTheProbeIsLost) {
  Load(TinyEngineOptions(2), 2, 2);
  SendLinkState(1, "w2", "");
  Wait(kLinkingPatience + milliseconds(500), 2);
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_EQ(ActionsOf<CloseWorker>()[0].link, LinkKey(1));
}

// The peer table of w2 lacks the spare w3: w2 was thrown out again and again for it.
TEST_F(EngineLinkingTest, ASpareThatANeighbourCannotDialIsReplacedByAnother) {
  answer_probes_ = true;
  EngineOptions options = TinyEngineOptions(2);
  Start(options);
  for (uint64_t link = 1; link <= 4; ++link) Join(link, absl::StrCat("w", link));
  Turn();
  Ready(1);
  Ready(2);
  Turn();
  ASSERT_EQ(State(), "serving");
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  ASSERT_THAT(Workers(), ElementsAre("w1", "w3"));
  actions_.clear();
  SendLinkState(1, "w3", "worker \"w3\" is not in this worker's peer table; it has w2, w4");
  Fail(1, "worker \"w3\" is not in this worker's peer table; it has w2, w4");
  Turn();
  EXPECT_THAT(ActionsOf<CloseWorker>(), IsEmpty());
  EXPECT_THAT(Workers(), ElementsAre("w1", "w4"));
  Ready(1);
  Ready(4);
  Turn();
  EXPECT_EQ(State(), "serving");
}

// While it serves: the link, not the worker at its end, and at once.
TEST_F(EngineLinkingTest, ALinkThatBreaksWhileServingEndsThePipelineOnly) {
  answer_probes_ = true;
  Serve(TinyEngineOptions(2), 2);
  Turn();
  SendLinkState(1, "w2", "connection reset by peer");
  EXPECT_EQ(State(), "serving") << "the worker that is gone may be about to be missed";
  Fail(1, "activation link to w2: connection reset by peer");
  Turn();
  EXPECT_THAT(ActionsOf<CloseWorker>(), IsEmpty());
  EXPECT_EQ(State(), "loading") << "again, with the same two";
}

}  // namespace
}  // namespace tutti::coordinator
