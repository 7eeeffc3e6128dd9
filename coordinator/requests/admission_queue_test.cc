#include "coordinator/requests/admission_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

class AdmissionQueueTest : public testing::Test {
 protected:
  Sequence* Make(int32_t priority, uint64_t owner, int32_t prompt, Instant due) {
    auto sequence = std::make_unique<Sequence>();
    sequence->arrival = sequences_.size() + 1;
    sequence->request.id = RequestId(sequence->arrival);
    sequence->request.priority = priority;
    sequence->request.owner = {.low = owner};
    sequence->request.max_tokens = 1;
    sequence->prompt_tokens = prompt;
    sequence->tokens.resize(prompt);
    sequence->due = due;
    sequences_.push_back(std::move(sequence));
    return sequences_.back().get();
  }
  Sequence* Add(int32_t priority, uint64_t owner, int32_t prompt, Instant due = Instant()) {
    Sequence* const made = Make(priority, owner, prompt, due);
    queue_.Push(made);
    return made;
  }
  Sequence* Take() {
    Sequence* const front = queue_.Front();
    queue_.PopFront();
    return front;
  }
  std::vector<uint64_t> TakeAll() {
    std::vector<uint64_t> order;
    while (queue_.size() > 0) order.push_back(Take()->arrival);
    return order;
  }

  AdmissionQueue queue_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_F(AdmissionQueueTest, NobodyWaits) {
  EXPECT_EQ(queue_.Front(), nullptr);
  Sequence* const only = Add(0, 1, 10);
  EXPECT_EQ(queue_.Front(), only);
  queue_.Erase(only);
  EXPECT_EQ(queue_.Front(), nullptr);
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(AdmissionQueueTest, LowerClassThenDeadlineThenArrival) {
  const Instant soon = Instant() + seconds(1);
  const Instant late = Instant() + seconds(9);
  Add(5, 1, 10, soon);
  Add(0, 1, 10, late);
  Add(0, 1, 10, soon);
  Add(0, 2, 10, soon);
  Add(-3, 2, 10, late);
  EXPECT_THAT(TakeAll(), ElementsAre(5, 3, 4, 2, 1));
}

TEST_F(AdmissionQueueTest, WhoLeavesIsNotFound) {
  Add(0, 1, 10);
  Sequence* const second = Add(0, 1, 10);
  Add(0, 2, 10);
  queue_.Erase(second);
  EXPECT_THAT(TakeAll(), ElementsAre(1, 3));
}

TEST_F(AdmissionQueueTest, TenantsShareByTokens) {
  // One sends long prompts, the other short ones, both without end; both get the same tokens.
  std::map<uint64_t, int64_t> served;
  for (int i = 0; i < 50; ++i) {
    Add(0, 1, 3000);
    for (int k = 0; k < 10; ++k) Add(0, 2, 300);
  }
  for (int i = 0; i < 200; ++i) {
    Sequence* const next = Take();
    served[next->request.owner.low] += next->total();
    const int64_t apart = std::abs(served[1] - served[2]);
    ASSERT_LE(apart, kLevelTokens + 3000 + 300) << "after " << i;
  }
}

TEST_F(AdmissionQueueTest, ACrowdDoesNotHoldUpANewcomer) {
  for (int i = 0; i < 1000; ++i) Add(0, 1, 2000, Instant());
  for (int i = 0; i < 20; ++i) Take();
  Sequence* const other = Add(0, 2, 2000, Instant() + kPatience);
  int waited = 0;
  while (Take() != other) ++waited;
  EXPECT_LE(waited, kLevelTokens / 2000 + 1) << "though everybody else has an earlier deadline";
}

TEST_F(AdmissionQueueTest, BeingAwayEarnsNoCredit) {
  Sequence* const early = Add(0, 2, 10);
  EXPECT_EQ(Take(), early);
  for (int i = 0; i < 100; ++i) Add(0, 1, 1000);
  for (int i = 0; i < 50; ++i) Take();
  for (int i = 0; i < 50; ++i) Add(0, 2, 1000);
  // They take turns from now on; the owner that was away does not get 50 in a row.
  int in_a_row = 0;
  int most = 0;
  for (int i = 0; i < 60; ++i) {
    in_a_row = Take()->request.owner.low == 2 ? in_a_row + 1 : 0;
    most = std::max(most, in_a_row);
  }
  EXPECT_LE(most, 6);
}

TEST_F(AdmissionQueueTest, SettlingGivesBackWhatWasNotTaken) {
  Sequence* const big = Make(0, 1, 50'000, Instant());
  queue_.Push(big);
  Add(0, 2, 10);
  Add(0, 2, 10);
  EXPECT_EQ(Take(), big);
  Add(0, 1, 10);
  EXPECT_EQ(queue_.Front()->request.owner.low, 2u) << "the first owner was charged a lot";
  queue_.ChargeActual(big);  // it never ran
  Add(0, 2, 10, Instant() + seconds(1));
  EXPECT_THAT(TakeAll(), ElementsAre(2, 3, 4, 5));
}

TEST_F(AdmissionQueueTest, ManyTenantsAreForgotten) {
  Add(0, 0, 1);  // one owner always waits
  for (uint64_t owner = 1; owner < 5 * kIdleOwnersMax; ++owner) {
    Add(0, owner, 1, Instant() - seconds(1));
    ASSERT_EQ(Take()->request.owner.low, owner);
  }
  EXPECT_EQ(queue_.size(), 1u);
  EXPECT_LE(queue_.owners(), kIdleOwnersMax + 2);
}

// After any operations, the front is the one that the rules name, found by comparing all.
TEST_F(AdmissionQueueTest, AgreesWithALoop) {
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    queue_ = AdmissionQueue();
    std::set<Sequence*> waiting;
    std::vector<Sequence*> taken;
    for (int i = 0; i < 400; ++i) {
      const double what = random.Uniform();
      if (what < 0.55) {
        waiting.insert(Add(static_cast<int32_t>(random.Between(0, 2)),
                           static_cast<uint64_t>(random.Between(1, 4)),
                           static_cast<int32_t>(random.Between(1, 3000)),
                           Instant() + seconds(random.Between(0, 5))));
      } else if (what < 0.65 && !waiting.empty()) {
        auto victim = waiting.begin();
        std::advance(victim, random.Between(0, static_cast<int64_t>(waiting.size()) - 1));
        queue_.Erase(*victim);
        waiting.erase(victim);
      } else if (what < 0.75 && !taken.empty()) {
        queue_.ChargeActual(taken.back());
        taken.pop_back();
      } else if (!waiting.empty()) {
        Sequence* const front = queue_.Front();
        const auto turn = [](const Sequence* s) {
          return std::tuple(s->request.priority, s->due, s->arrival);
        };
        const auto less = [&](const Sequence* a, const Sequence* b) { return turn(a) < turn(b); };
        Sequence* const first = *std::min_element(waiting.begin(), waiting.end(), less);
        ASSERT_EQ(front->request.priority, first->request.priority);
        // No sequence of its owner comes before it.
        for (Sequence* other : waiting) {
          if (other->request.owner != front->request.owner) continue;
          ASSERT_GE(turn(other), turn(front));
        }
        taken.push_back(Take());
        waiting.erase(front);
      }
      ASSERT_EQ(queue_.size(), waiting.size());
    }
  }
}

}  // namespace
}  // namespace tutti::coordinator
