// Workers are told where their neighbours say that they listen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class EngineAnnouncedTest : public EngineTest {
 protected:
  void JoinAt(uint64_t link, const std::string& address) {
    v1::Hello hello = TinyHello(absl::StrCat("w", link));
    hello.set_advertised_address(address);
    Give(WorkerJoined{LinkKey(link), hello});
  }
  // "w1 at 10.0.0.1:1" of each that the last assignment of this worker tells.
  std::vector<std::string> ToldTo(uint64_t link) {
    std::vector<std::string> told;
    for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
      if (send.link != LinkKey(link) || !send.frame.has_assign_shard()) continue;
      told.clear();
      for (const v1::PeerAddress& peer : send.frame.assign_shard().peers()) {
        told.push_back(absl::StrCat(peer.worker_id(), " at ", peer.address()));
      }
    }
    return told;
  }
};

TEST_F(EngineAnnouncedTest, EachIsToldOfItsNeighboursAndOfNobodyElse) {
  Start(TinyEngineOptions(3));
  JoinAt(1, "10.0.0.1:1");
  JoinAt(2, "10.0.0.2:1");
  JoinAt(3, "");
  Turn();
  EXPECT_THAT(ToldTo(1), ElementsAre("w2 at 10.0.0.2:1"));
  EXPECT_THAT(ToldTo(2), ElementsAre("w1 at 10.0.0.1:1")) << "w3 has announced nothing";
  EXPECT_THAT(ToldTo(3), ElementsAre("w2 at 10.0.0.2:1"));
}

TEST_F(EngineAnnouncedTest, ASpareIsToldOfNobodyAndWhoTakesAPlaceOfItsNeighbours) {
  Start(TinyEngineOptions(2));
  JoinAt(1, "10.0.0.1:1");
  JoinAt(2, "10.0.0.2:1");
  Turn();
  Ready(1);
  Ready(2);
  JoinAt(3, "10.0.0.3:1");
  Turn();
  EXPECT_THAT(ToldTo(3), IsEmpty());
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  EXPECT_THAT(ToldTo(1), ElementsAre("w3 at 10.0.0.3:1"));
  EXPECT_THAT(ToldTo(3), ElementsAre("w1 at 10.0.0.1:1"));
}

}  // namespace
}  // namespace tutti::coordinator
