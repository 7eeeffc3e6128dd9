// Every budget of the gateway's that callers share: who owns what is taken of it, that a greedy
// caller is refused before all is gone, and what its neighbour still gets.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "door/byte_budget.h"
#include "door/door.h"
#include "gateway/caller_rules.h"
#include "gateway/http/handshake_gate.h"
#include "gateway/limits.h"
#include "gateway/openai/service/keyed_answers.h"
#include "gateway/service/work_lanes.h"

namespace tutti::gateway {
namespace {

// Takes one share for an owner; false: it is refused. What is taken stays taken.
using Take = std::function<bool(const std::string& owner)>;

struct Budget {
  std::string name;
  int64_t total;  // in shares
  Take take;
};

// Of one share's bytes each.
Budget Bytes(const std::string& name, int64_t total, int64_t share) {
  struct Held {
    explicit Held(int64_t all) : budget(all) {}
    door::ByteBudget budget;
    std::vector<door::ByteBudget::Charge> charges;
  };
  auto held = std::make_shared<Held>(total);
  return {name, total / share, [held, share](const std::string& owner) {
            auto charge = held->budget.Take(owner, share);
            if (charge) held->charges.push_back(*std::move(charge));
            return charge.has_value();
          }};
}

// Threads that never end, and what waits for them.
Budget Places(const std::string& name, Lane lane, std::shared_ptr<WorkLanes> lanes,
              std::shared_future<void> freed) {
  return {name, static_cast<int64_t>(kLaneJobsMax), [lanes, lane, freed](const std::string& owner) {
            return lanes->Run(lane, owner, 1 << 20, [freed] { freed.wait(); });
          }};
}

class SharesTest : public ::testing::Test {
 protected:
  std::vector<Budget> All() {
    auto lanes = std::make_shared<WorkLanes>();
    const std::shared_future<void> freed = free_.get_future().share();
    auto keyed = std::make_shared<KeyedAnswers>();
    auto places = std::make_shared<std::vector<door::ByteBudget::Charge>>();
    auto gate = std::make_shared<HandshakeGate>(kHandshakesMax);
    const auto who = std::make_shared<int>(0);
    return {
        Bytes("bodies, requests under way and unread answers of HTTP", kBodiesBytesMax, 1 << 20),
        Bytes("requests under way and unread output of gRPC", door::kDoorBytesMax, 1 << 20),
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
        Bytes("bytes of such answers", kKeptBytesMax, kKeptAnswerBytesMax),
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
  const std::vector<Budget> all = All();
  for (const Budget& budget : all) {
    SCOPED_TRACE(budget.name);
    const auto take_all = [&](const std::string& owner) {
      int64_t taken = 0;
      while (taken < 2 * budget.total && budget.take(owner)) ++taken;
      return taken;
    };
    const int64_t of_greedy = take_all(greedy);
    const int64_t of_modest = take_all(modest);
    const int64_t of_third = take_all("of another");
    RecordProperty(budget.name, absl::StrCat(of_greedy, " ", of_modest, " ", of_third));
    EXPECT_GE(of_greedy, budget.total / 4);
    EXPECT_LE(of_greedy, budget.total / 2 + 3);  // those that run beside
    EXPECT_GE(of_modest, budget.total / 10);
    EXPECT_GE(of_third, budget.total / 40);
  }
  free_.set_value();
}

}  // namespace
}  // namespace tutti::gateway
