#include "coordinator/fleet/incarnation.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

TEST(IncarnationTest, EpochsOfALaterOneAreNewer) {
  EXPECT_GT(EpochBefore(8), Epoch(EpochBefore(7).value() + 1000000));
  EXPECT_EQ(IncarnationOf(Epoch(EpochBefore(7).value() + 5)), 7u);
  EXPECT_EQ(EpochName(Epoch(EpochBefore(7).value() + 5)), "7.5");
  EXPECT_EQ(EpochName(Epoch(5)), "5");
}

TEST(IncarnationTest, AGuessIsRaisedAboveWhatAWorkerHasObeyed) {
  Incarnation incarnation;
  incarnation.Lead(100, /*judged=*/false);
  EXPECT_TRUE(incarnation.Meet(0).ok());
  EXPECT_TRUE(incarnation.Meet(99).ok());
  EXPECT_EQ(incarnation.number(), 100u);
  EXPECT_TRUE(incarnation.Meet(100).ok());
  EXPECT_EQ(incarnation.number(), 101u) << "two that were started within one second";
  EXPECT_TRUE(incarnation.Meet(5000).ok());
  EXPECT_EQ(incarnation.number(), 5001u);
  const absl::Status last = incarnation.Meet(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(last.code(), absl::StatusCode::kInvalidArgument) << last;
  EXPECT_EQ(incarnation.number(), 5001u);
}

TEST(IncarnationTest, ANumberOfALeaseStandsAndAWorkerOfALaterOneIsRefused) {
  Incarnation incarnation;
  incarnation.Lead(7, /*judged=*/true);
  EXPECT_TRUE(incarnation.Meet(0).ok());
  EXPECT_TRUE(incarnation.Meet(7).ok());
  const absl::Status later = incarnation.Meet(8);
  EXPECT_EQ(later.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(later.message().find("number 8 and this one is number 7"), std::string::npos) << later;
  EXPECT_EQ(incarnation.number(), 7u);
}

class EngineIncarnationTest : public EngineTest {
 protected:
  // The incarnations in the workers' welcomes, and the epochs of their shards.
  std::vector<uint32_t> Welcomes() const {
    std::vector<uint32_t> numbers;
    for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
      if (sent.frame.has_welcome()) numbers.push_back(sent.frame.welcome().incarnation());
    }
    return numbers;
  }
  std::vector<uint64_t> AssignedEpochs() const {
    std::vector<uint64_t> epochs;
    for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
      if (sent.frame.has_assign_shard()) epochs.push_back(sent.frame.epoch());
    }
    return epochs;
  }
  void JoinThatObeyed(uint64_t link, const std::string& id, uint32_t incarnation) {
    v1::Hello hello = TinyHello(id);
    hello.set_incarnation(incarnation);
    Give(WorkerJoined{LinkKey(link), hello});
  }
};

TEST_F(EngineIncarnationTest, WelcomesAndEpochsSayWhoLeads) {
  Start(TinyEngineOptions(1));
  Give(Led{.incarnation = 7, .judged = true});
  JoinThatObeyed(1, "w1", 3);
  Turn();
  EXPECT_EQ(Welcomes(), std::vector<uint32_t>{7});
  EXPECT_EQ(AssignedEpochs(), std::vector<uint64_t>{EpochBefore(7).value() + 1});
}

TEST_F(EngineIncarnationTest, AWorkerThatHasObeyedALaterOneIsRefusedByName) {
  Start(TinyEngineOptions(1));
  Give(Led{.incarnation = 7, .judged = true});
  JoinThatObeyed(1, "w1", 8);
  Turn();
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_EQ(ActionsOf<CloseWorker>()[0].reason.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(AssignedEpochs().empty());
}

// The second one's epochs are newer than all that workers know of the first.
TEST_F(EngineIncarnationTest, TwoWithoutALeaseThatStartWithinOneSecond) {
  Start(TinyEngineOptions(1));
  Give(Led{.incarnation = 100, .judged = false});
  JoinThatObeyed(1, "w1", 100);
  Turn();
  EXPECT_EQ(Welcomes(), std::vector<uint32_t>{101});
  EXPECT_EQ(AssignedEpochs(), std::vector<uint64_t>{EpochBefore(101).value() + 1});
}

TEST_F(EngineIncarnationTest, ACoordinatorWithoutALeaseWhoseClockWentBackIsObeyed) {
  Start(TinyEngineOptions(2));
  Give(Led{.incarnation = 100, .judged = false});
  JoinThatObeyed(1, "w1", 0);
  JoinThatObeyed(2, "w2", 90000);
  Turn();
  EXPECT_EQ(Welcomes(), (std::vector<uint32_t>{100, 90001}));
  EXPECT_EQ(AssignedEpochs(), std::vector<uint64_t>(2, EpochBefore(90001).value() + 1));
}

}  // namespace
}  // namespace tutti::coordinator
