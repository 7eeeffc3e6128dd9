// Requests on board of a loss: who lives acquits them, who dies accuses them, and only what kills
// each time is given up (docs/decisions/0077-guilt.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kIncarnation = 7;

// One worker, w1, which is lost again and again.
class EngineGuiltTest : public EngineTest {
 protected:
  void Serve() {
    EngineOptions options = TinyEngineOptions(1);
    options.kv_tokens_max = 8192;
    options.max_model_len = 8192;
    Start(options);
    Give(Led{.incarnation = kIncarnation, .judged = true});
    Rejoin(/*same_process=*/false);
  }
  // It joins over another link and loads; the requests that wait are bound, and a step is planned.
  void Rejoin(bool same_process) {
    v1::Hello hello = TinyHello("w1");
    if (same_process) hello.set_incarnation(kIncarnation);
    Give(WorkerJoined{LinkKey(++link_), hello});
    Turn();
    Plans().clear();  // of the epoch before
    Ready(link_, epoch());
    Turn();
  }
  void Reset() { Give(WorkerLost{LinkKey(link_), absl::UnavailableError("Connection reset")}); }
  // It stands still for longer than its lease, and is closed.
  void Pause() {
    now_ += milliseconds(2200);
    Turn();
  }
  // Plans that have not been answered, the oldest first.
  std::vector<v1::StepPlan>& Plans() {
    for (Action& action : std::exchange(actions_, {})) {
      if (auto* send = std::get_if<SendToWorker>(&action)) {
        if (send->frame.has_step_plan()) plans_.push_back(send->frame.step_plan());
      } else if (auto* finish = std::get_if<FinishRequest>(&action)) {
        ended_.push_back(absl::StrCat(finish->request.value(), " ",
                                      absl::StatusCodeToString(finish->status.code())));
        message_ = std::string(finish->status.message());
      } else if (auto* deliver = std::get_if<DeliverTokens>(&action)) {
        tokens_ += static_cast<int>(deliver->tokens.size());
      }
    }
    return plans_;
  }
  // Does the oldest step.
  void Work() {
    const v1::StepPlan plan = Plans().front();
    plans_.erase(plans_.begin());
    Send(link_, ResultOf(epoch(), plan));
    Turn();
  }
  // The rows that the oldest step computes; 0: none is under way.
  int32_t Rows() { return Plans().empty() ? 0 : Plans().front().total_rows(); }
  // Whether the oldest step computes row `row` of a sequence.
  bool Computes(int32_t row) {
    for (const v1::ScheduledSequence& scheduled : Plans().front().scheduled()) {
      if (scheduled.first() <= row && row < scheduled.first() + scheduled.count()) return true;
    }
    return false;
  }
  // Steps are done but those that compute `row`, of which the process dies, and is started again.
  // How many have died.
  int DieAt(int32_t row, int at_most) {
    for (int died = 0; died < at_most;) {
      if (!ended_.empty() || Rows() == 0) return died;
      if (!Computes(row)) {
        Work();
        continue;
      }
      Reset();
      ++died;
      Rejoin(/*same_process=*/false);
      Plans();
    }
    return at_most;
  }
  const std::vector<std::string>& Ended() {
    Plans();
    return ended_;
  }

  uint64_t link_ = 0;
  int tokens_ = 0;
  std::string message_;
  std::vector<v1::StepPlan> plans_;
  std::vector<std::string> ended_;
};

TEST_F(EngineGuiltTest, ResetsOfALinkAcquitWhatWasOnBoard) {
  Serve();
  Arrive(1, 2000, 5);
  Turn();
  for (int i = 0; i < 5; ++i) {
    ASSERT_GT(Rows(), 0) << i;
    Reset();
    Rejoin(/*same_process=*/true);
  }
  EXPECT_THAT(Ended(), IsEmpty());
  // It is no suspect: others are computed beside it, and as many rows as without losses.
  EXPECT_EQ(Rows(), 512);
  Arrive(2, 2000, 5);
  Turn();
  EXPECT_EQ(Status().pipelines(0).running() + Status().pipelines(0).waiting(), 2);
}

TEST_F(EngineGuiltTest, PausesAcquitWhatWasOnBoard) {
  Serve();
  Arrive(1, 2000, 5);
  Turn();
  for (int i = 0; i < 5; ++i) {
    ASSERT_GT(Rows(), 0) << i;
    Pause();
    Rejoin(/*same_process=*/true);
  }
  EXPECT_THAT(Ended(), IsEmpty());
  EXPECT_EQ(Rows(), 512);
}

// It comes back before its lease is seen to have run out.
TEST_F(EngineGuiltTest, OneThatComesBackOverAnotherLinkAcquitsToo) {
  Serve();
  Arrive(1, 2000, 5);
  Turn();
  for (int i = 0; i < 5; ++i) {
    ASSERT_GT(Rows(), 0) << i;
    now_ += milliseconds(2200);
    Rejoin(/*same_process=*/true);
  }
  EXPECT_THAT(Ended(), IsEmpty());
  EXPECT_EQ(Rows(), 512);
}

TEST_F(EngineGuiltTest, ResetsWhileAnAnswerIsComputedAgainAcquit) {
  Serve();
  Arrive(1, 2000, 5);
  Turn();
  while (tokens_ == 0) Work();
  for (int i = 0; i < 5; ++i) {
    ASSERT_GT(Rows(), 0) << i;
    Reset();
    Rejoin(/*same_process=*/true);
    Work();  // a part of it
  }
  EXPECT_THAT(Ended(), IsEmpty());
  while (Rows() > 0) Work();
  EXPECT_THAT(Ended(), ElementsAre("1 OK"));
}

// Of 2,000 tokens some row kills; the bound is that of docs/decisions/0077-guilt.md.
TEST_F(EngineGuiltTest, WhatKillsEachTimeIsStopped) {
  for (const int32_t row : {0, 700, 1999}) {
    ended_.clear();
    Serve();
    Arrive(1, 2000, 5);
    Turn();
    EXPECT_LE(DieAt(row, 20), 5) << row;
    EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL")) << row;
    EXPECT_THAT(message_, HasSubstr("times in a row while they computed token 0"));
  }
}

TEST_F(EngineGuiltTest, AShortOneIsStoppedAtTheThirdDeath) {
  Serve();
  Arrive(1, 10, 20);
  Turn();
  EXPECT_EQ(DieAt(15, 20), 3);
  EXPECT_EQ(tokens_, 6);
  EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL"));
  EXPECT_THAT(message_, HasSubstr("3 times in a row while they computed token 6"));
}

// Processes are killed from outside, in whatever step that takes long.
TEST_F(EngineGuiltTest, DeathsOverOtherRowsEachTimeAccuseNobody) {
  Serve();
  Arrive(1, 2000, 300);
  Turn();
  while (tokens_ == 0) Work();
  for (int i = 0; i < 40; ++i) {
    for (int steps = 0; steps < i % 3; ++steps) Work();
    while (Rows() > 1 && Rows() < 64) Work();
    ASSERT_GT(Rows(), 0) << i;
    Reset();
    Rejoin(/*same_process=*/false);
    ASSERT_THAT(Ended(), IsEmpty()) << i;
  }
  while (Rows() > 0) Work();
  EXPECT_THAT(Ended(), ElementsAre("1 OK"));
}

TEST_F(EngineGuiltTest, NobodyIsGivenUpBeforeItIsKnownHowTheWorkerWasLost) {
  for (const bool same_process : {true, false}) {
    ended_.clear();
    Serve();
    Arrive(1, 10, 5);
    Turn();
    for (int i = 0; i < 2; ++i) {
      Reset();
      Rejoin(/*same_process=*/false);
    }
    while (!Computes(9)) Work();
    Reset();
    now_ += milliseconds(100);
    Turn();
    EXPECT_THAT(Ended(), IsEmpty());
    Rejoin(same_process);
    if (same_process) {
      EXPECT_THAT(Ended(), IsEmpty());
      while (Rows() > 0) Work();
      EXPECT_THAT(Ended(), ElementsAre("1 OK"));
    } else {
      EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL"));
      EXPECT_THAT(message_, HasSubstr("Connection reset"));
    }
  }
}

// A process that lives dials again within the patience. Of one that fell silent nothing is known.
TEST_F(EngineGuiltTest, AWorkerThatDoesNotComeBackHasDiedIfItsLinkClosed) {
  for (const bool silent : {false, true}) {
    ended_.clear();
    Serve();
    Arrive(1, 10, 5);
    Turn();
    for (int i = 0; i < 2; ++i) {
      Reset();
      Rejoin(/*same_process=*/false);
    }
    while (!Computes(9)) Work();
    silent ? Pause() : Reset();
    now_ += kVerdictPatience - milliseconds(1);
    Turn();
    EXPECT_THAT(Ended(), IsEmpty());
    EXPECT_LE(engine_->next_deadline(), now_ + milliseconds(1));
    now_ += milliseconds(1);
    Turn();
    if (silent) {
      EXPECT_THAT(Ended(), IsEmpty());
      Rejoin(/*same_process=*/false);
      while (Rows() > 0) Work();
      EXPECT_THAT(Ended(), ElementsAre("1 OK"));
    } else {
      EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL"));
    }
  }
}

TEST_F(EngineGuiltTest, AWorkerThatFailsOfItselfAccusesAtOnce) {
  Serve();
  Arrive(1, 10, 5);
  Turn();
  for (int i = 0; i < 3; ++i) {
    while (Rows() > 0 && !Computes(9)) Work();
    v1::Frame failure;
    failure.set_epoch(epoch());
    failure.mutable_failure()->set_message("out of memory");
    Send(link_, failure);
    now_ += seconds(20);  // its pause
    Rejoin(/*same_process=*/true);
  }
  EXPECT_THAT(Ended(), ElementsAre("1 INTERNAL"));
  EXPECT_THAT(message_, HasSubstr("out of memory"));
}

TEST_F(EngineGuiltTest, OthersLikeItAreRefusedAfterTheSecondOnly) {
  Serve();
  for (uint64_t id = 1; id <= 2; ++id) {
    ended_.clear();
    Arrive(id, 10, 5);
    Turn();
    EXPECT_EQ(DieAt(9, 20), 3);
    EXPECT_THAT(Ended(), ElementsAre(absl::StrCat(id, " INTERNAL")));
  }
  Arrive(3, 10, 5);
  EXPECT_THAT(Ended(), ElementsAre("2 INTERNAL", "3 INTERNAL"));
  EXPECT_THAT(message_, HasSubstr("it is refused for another"));
  Arrive(4, 11, 5);
  Turn();
  EXPECT_EQ(Rows(), 11) << "another request";
}

}  // namespace
}  // namespace tutti::coordinator
