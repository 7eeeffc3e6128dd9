// Every budget of the gateway's that callers share: who owns what is taken of it, that a greedy
// caller is refused before all is gone, and what its neighbour still gets.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "door/byte_budget.h"
#include "door/limits.h"
#include "door/shares_testing.h"
#include "gateway/caller_rules.h"
#include "gateway/http/handshake_gate.h"
#include "gateway/limits.h"
#include "gateway/openai/service/keyed_answers.h"
#include "gateway/service/work_lanes.h"

namespace tutti::gateway {
namespace {

using door::BytesInShares;
using door::SharedBudget;

// Threads that never end, and what waits for them.
SharedBudget Places(const std::string& name, Lane lane, std::shared_ptr<WorkLanes> lanes,
                    std::shared_future<void> freed) {
  return {name, static_cast<int64_t>(kLaneJobsMax), [lanes, lane, freed](const std::string& owner) {
            return lanes->Run(lane, owner, 1 << 20, [freed] { freed.wait(); });
          }};
}

class SharesTest : public ::testing::Test {
 protected:
  std::vector<SharedBudget> All() {
    auto lanes = std::make_shared<WorkLanes>();
    const std::shared_future<void> freed = free_.get_future().share();
    auto keyed = std::make_shared<KeyedAnswers>();
    auto places = std::make_shared<std::vector<door::ByteBudget::Charge>>();
    auto gate = std::make_shared<HandshakeGate>(kHandshakesMax);
    const auto who = std::make_shared<int>(0);
    return {
        BytesInShares("bodies, requests under way and unread answers of HTTP", kBodiesBytesMax,
                      1 << 20),
        BytesInShares("requests under way and unread output of gRPC", door::kDoorBytesMax, 1 << 20),
        Places("figures of the process", Lane::kHere, lanes, freed),
        Places("small requests for tokens", Lane::kShort, lanes, freed),
        Places("large bodies", Lane::kLong, lanes, freed),
        Places("large requests for tokens", Lane::kAsk, lanes, freed),
        {"answers kept under an Idempotency-Key", static_cast<int64_t>(kKeyedAnswersMax),
         [keyed, places](const std::string& owner) {
           auto place = keyed->TakePlace(owner);
           if (place) places->push_back(*std::move(place));
           return place.has_value();
         }},
        BytesInShares("bytes of such answers", kKeptBytesMax, kKeptAnswerBytesMax),
        {"handshakes of TLS", kHandshakesMax,
         [gate, who](const std::string& owner) {
           bool begun = false;
           gate->Enter(owner, who, [&begun] { begun = true; });
           return begun;
         }},
    };
  }

  std::promise<void> free_;  // the threads of lanes
};

TEST_F(SharesTest, AGreedyCallerIsRefusedBeforeItsNeighbour) {
  const std::string greedy = OwnerName("acme", "10.0.0.7");
  const std::string modest = OwnerName("", "10.0.0.7");
  ASSERT_NE(greedy, modest);
  const std::vector<SharedBudget> all = All();
  door::WalkBudgets(all, greedy, modest, "of another");
  free_.set_value();
}

}  // namespace
}  // namespace tutti::gateway
