// The numerics class follows from all that join within the settling time, whoever came first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
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

struct Machine {
  std::string id;
  std::vector<std::string> classes;
};

class EngineClassTest : public EngineTest {
 protected:
  void JoinAs(uint64_t link, const Machine& machine, const std::string& last = "") {
    v1::Hello hello = TinyHello(machine.id);
    hello.set_numerics_class(machine.classes.front());
    for (const std::string& one : machine.classes) {
      hello.add_numerics()->set_numerics_class(one);
    }
    hello.set_last_numerics_class(last);
    Give(WorkerJoined{LinkKey(link), hello});
    Turn();
  }
  // All that have been told a shard of the pipelines' epochs, and are not ready, are now.
  void AllReady() {
    std::map<uint64_t, uint64_t> epochs;
    for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
      if (send.frame.has_assign_shard()) epochs[send.link.value()] = send.frame.epoch();
    }
    for (const auto& [link, at] : epochs) {
      if (at == epoch() && readied_.emplace(link, at).second) Ready(link, at);
    }
    Turn();
  }
  void Pass(Duration time) {
    for (Duration passed{}; passed < time; passed += milliseconds(250)) {
      now_ += milliseconds(250);
      for (uint64_t link = 1; link <= 9; ++link) Beat(link, 0);
      Turn();
    }
  }
  std::string Class() { return Status().numerics().numerics_class(); }
  std::vector<std::string> Refused() {
    std::vector<std::string> reasons;
    for (const CloseWorker& close : ActionsOf<CloseWorker>()) {
      reasons.emplace_back(close.reason.message());
    }
    return reasons;
  }
  std::set<std::pair<uint64_t, uint64_t>> readied_;  // link and epoch
  const Machine quick0{"w0", {"quick", "plain"}};
  const Machine quick1{"w1", {"quick", "plain"}};
  const Machine plain{"w2", {"plain"}};
  const Machine strange{"w3", {"strange"}};
};

TEST_F(EngineClassTest, TheOrderOfJoiningDecidesNothing) {
  std::vector<Machine> machines = {quick0, quick1, plain, strange};
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    actions_.clear();
    readied_.clear();
    Start(TinyEngineOptions(2));
    for (size_t i = 0; i < order.size(); ++i) {
      JoinAs(i + 1, machines[order[i]]);
      AllReady();
      now_ += milliseconds(300);
    }
    Pass(kJoinQuiet);
    AllReady();
    const std::string text = testing::PrintToString(order);
    EXPECT_EQ(Class(), "plain") << text;
    EXPECT_TRUE(Status().numerics().settled()) << text;
    EXPECT_TRUE(Status().serving()) << text << Status().why_not_serving();
    EXPECT_EQ(Status().pipelines(0).numerics_class(), "plain") << text;
    ASSERT_EQ(Refused().size(), 1u) << text << testing::PrintToString(Refused());
    EXPECT_THAT(Refused()[0], HasSubstr("numerics class of the worker is \"strange\""));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(EngineClassTest, PipelinesFormAtOnceAndAgainForANewcomer) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0);
  JoinAs(2, quick1);
  AllReady();
  EXPECT_TRUE(Status().serving()) << "nobody is waited for";
  EXPECT_EQ(Class(), "quick");
  EXPECT_FALSE(Status().numerics().settled());
  EXPECT_EQ(ActionsOf<SendToWorker>().back().frame.assign_shard().numerics_class(), "quick");
  now_ += milliseconds(500);
  JoinAs(3, plain);
  EXPECT_EQ(Class(), "plain");
  EXPECT_FALSE(Status().serving()) << "it loads anew";
  AllReady();
  EXPECT_TRUE(Status().serving());
  EXPECT_THAT(Refused(), IsEmpty());
  EXPECT_THAT(Status().numerics().cost(), HasSubstr("w0, w1 would be better in quick, which w2"));
  bool told = false;
  for (const Notice& notice : ActionsOf<Notice>()) {
    told |= notice.text.find("numerics class plain: the only one") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST_F(EngineClassTest, AStreamSettlesIt) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0);
  JoinAs(2, quick1);
  AllReady();
  Arrive(1, 4, 4);
  Turn();
  JoinAs(3, plain);
  EXPECT_EQ(Class(), "quick");
  EXPECT_TRUE(Status().serving());
  ASSERT_EQ(Refused().size(), 1u);
  EXPECT_THAT(Refused()[0], HasSubstr("start the coordinator with --numerics-class plain"));
}

// It stays, as answers may have been begun in it; but nobody who has gone is named as the reason.
TEST_F(EngineClassTest, WhenTheCauseOfASlowClassHasLeftTheStatusSaysWhatToDo) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0);
  JoinAs(2, quick1);
  JoinAs(3, plain);
  AllReady();
  Pass(kJoinQuiet);
  ASSERT_EQ(Class(), "plain");
  EXPECT_THAT(Status().numerics().cost(), Not(HasSubstr("restart")));
  Give(WorkerLost{LinkKey(3), absl::UnavailableError("gone")});
  Turn();
  EXPECT_EQ(Class(), "plain");
  EXPECT_THAT(Status().numerics().cost(),
              HasSubstr("restart the coordinator with --numerics-class quick"));
  EXPECT_THAT(Status().numerics().cost(), Not(HasSubstr("w2")));
}

// Among them a worker that the former coordinator refused for its class.
TEST_F(EngineClassTest, ACoordinatorThatReturnsKeepsWhatAnswersWereBegunIn) {
  Start(TinyEngineOptions(2));
  JoinAs(1, plain);
  JoinAs(2, quick0, "quick");
  JoinAs(3, quick1, "quick");
  AllReady();
  Pass(kJoinQuiet);
  AllReady();
  EXPECT_EQ(Class(), "quick");
  ASSERT_EQ(Refused().size(), 1u);
  EXPECT_THAT(Refused()[0], HasSubstr("numerics class of the worker is \"plain\""));
  EXPECT_THAT(Status().numerics().why(), HasSubstr("2 workers computed in it last"));
}

TEST_F(EngineClassTest, AStreamThatHasBegunKeepsItWhenAWorkerGoesBeforeItIsSettled) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0);
  JoinAs(2, {"w1", {"quick"}});
  AllReady();
  JoinAs(3, plain);
  AllReady();
  ASSERT_EQ(Class(), "quick");
  Arrive(1, 4, 4);
  Turn();
  v1::Frame done;
  done.set_epoch(epoch());
  done.mutable_step_done()->set_step(1);
  Send(1, done);
  v1::Frame result = ResultFrame(epoch(), 1);
  v1::SampledToken* const token = result.mutable_step_result()->add_sampled();
  token->set_sequence(1);
  token->set_position(4);
  Send(2, result);
  Turn();
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  EXPECT_EQ(Class(), "quick");
  EXPECT_THAT(ActionsOf<FinishRequest>(), IsEmpty()) << "it waits for w1";
}

// Whoever is left could compute a better one, which the worker that comes back cannot.
TEST_F(EngineClassTest, ItStaysWhenAWorkerGoesForAMoment) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0);
  JoinAs(2, plain);
  AllReady();
  ASSERT_EQ(Class(), "plain");
  ASSERT_TRUE(Status().serving());
  EXPECT_FALSE(Status().numerics().settled());
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  EXPECT_EQ(Class(), "plain");
  JoinAs(3, plain);
  AllReady();
  EXPECT_THAT(Refused(), IsEmpty());
  EXPECT_TRUE(Status().serving());
}

TEST_F(EngineClassTest, NobodyVotesTwice) {
  Start(TinyEngineOptions(1));
  JoinAs(1, {"w0", {"plain"}});
  AllReady();
  JoinAs(2, {"bad", {"strange", "strange", "strange"}});
  EXPECT_EQ(Class(), "plain");
  ASSERT_EQ(Refused().size(), 1u);
  EXPECT_EQ(Refused()[0], "the worker names the numerics class \"strange\" twice");
}

TEST_F(EngineClassTest, ALateOneIsRefusedUntilNothingServesAndNothingLives) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0);
  JoinAs(2, quick1);
  AllReady();
  Pass(kJoinQuiet);
  EXPECT_TRUE(Status().numerics().settled());
  JoinAs(3, plain);
  EXPECT_EQ(Refused().size(), 1u);
  EXPECT_EQ(Class(), "quick");
  // The pipeline cannot form without it.
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Turn();
  actions_.clear();
  JoinAs(4, plain);
  EXPECT_THAT(Refused(), IsEmpty());
  EXPECT_EQ(Class(), "plain");
  AllReady();
  EXPECT_TRUE(Status().serving());
}

TEST_F(EngineClassTest, WhileAStreamWaitsForItsClassNobodyElseMayJoin) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0);
  JoinAs(2, quick1);
  AllReady();
  Arrive(1, 4, 4);
  Turn();
  v1::Frame done;
  done.set_epoch(epoch());
  done.mutable_step_done()->set_step(1);
  Send(1, done);
  v1::Frame result = ResultFrame(epoch(), 1);
  v1::SampledToken* const token = result.mutable_step_result()->add_sampled();
  token->set_sequence(1);
  token->set_position(4);
  Send(2, result);
  Turn();
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Turn();
  JoinAs(3, plain);
  EXPECT_EQ(Refused().size(), 1u) << "the stream goes on in its class only";
  EXPECT_EQ(Class(), "quick");
  JoinAs(4, quick0);
  AllReady();
  EXPECT_TRUE(Status().serving());
  EXPECT_EQ(Status().pipelines(0).numerics_class(), "quick");
}

TEST_F(EngineClassTest, ACoordinatorThatReturnsKeepsIt) {
  Start(TinyEngineOptions(2));
  JoinAs(1, quick0, "plain");
  JoinAs(2, quick1, "plain");
  EXPECT_EQ(Class(), "plain");
  EXPECT_THAT(Status().numerics().why(), HasSubstr("computed in it last"));
  // One that has lost all its workers, too.
  AllReady();
  Pass(kJoinQuiet);
  for (uint64_t link : {1, 2}) Give(WorkerLost{LinkKey(link), absl::UnavailableError("gone")});
  Turn();
  JoinAs(3, quick0);
  JoinAs(4, quick1);
  EXPECT_EQ(Class(), "plain");
}

// A worker that computes in such a class serves only where its coordinator was told so.
TEST_F(EngineClassTest, AnInexactClassServesOnlyWhereItIsNamed) {
  for (const bool named : {false, true}) {
    actions_.clear();
    readied_.clear();
    EngineOptions options = TinyEngineOptions(1);
    if (named) options.numerics_class = "fast";
    Start(options);
    v1::Hello hello = TinyHello("w0");
    hello.set_numerics_class("fast");
    v1::NumericsOffer& offer = *hello.add_numerics();
    offer.set_numerics_class("fast");
    offer.set_inexact(true);
    Give(WorkerJoined{LinkKey(1), hello});
    Turn();
    AllReady();
    EXPECT_EQ(Status().serving(), named) << Status().why_not_serving();
    ASSERT_EQ(Refused().size(), named ? 0u : 1u);
    if (!named) {
      EXPECT_THAT(Refused()[0], HasSubstr("fast is not exact"));
      EXPECT_THAT(Refused()[0], HasSubstr("--numerics-class fast"));
      continue;
    }
    EXPECT_THAT(Status().numerics().why(), HasSubstr("not exact"));
    EXPECT_TRUE(Status().pipelines(0).has_exact());
    EXPECT_FALSE(Status().pipelines(0).exact());
  }
}

TEST_F(EngineClassTest, AnOlderWorkerIsExact) {
  Start(TinyEngineOptions(1));
  JoinAs(1, plain);
  AllReady();
  EXPECT_TRUE(Status().serving());
  EXPECT_TRUE(Status().pipelines(0).exact());
}

TEST_F(EngineClassTest, TheOperatorsWordHoldsAtOnce) {
  EngineOptions options = TinyEngineOptions(1);
  options.numerics_class = "plain";
  Start(options);
  JoinAs(1, strange);
  ASSERT_EQ(Refused().size(), 1u);
  EXPECT_THAT(Refused()[0], HasSubstr("--numerics-class says so"));
  JoinAs(2, quick0);
  EXPECT_EQ(ActionsOf<SendToWorker>().back().frame.assign_shard().numerics_class(), "plain");
  EXPECT_TRUE(Status().numerics().settled());
  EXPECT_THAT(Status().numerics().why(), HasSubstr("operator"));
}

TEST_F(EngineClassTest, WhereClassesAreMixedEachComputesInItsOwn) {
  EngineOptions options = TinyEngineOptions(2);
  options.mix_numerics = true;
  Start(options);
  JoinAs(1, quick0);
  JoinAs(2, strange);
  std::vector<std::string> told;
  for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
    if (send.frame.has_assign_shard()) told.push_back(send.frame.assign_shard().numerics_class());
  }
  EXPECT_THAT(told, ElementsAre("quick", "strange"));
  EXPECT_FALSE(Status().has_numerics());
}

}  // namespace
}  // namespace tutti::coordinator
