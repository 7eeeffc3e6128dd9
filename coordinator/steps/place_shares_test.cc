#include "coordinator/steps/place_shares.h"

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <vector>

#include "base/random.h"

namespace tutti::coordinator {
namespace {

constexpr int32_t kTokensOfBlock = 16;

struct Member {
  Sequence sequence;
  bool waits = false;
  bool runs = false;
};

class PlaceSharesTest : public testing::Test {
 protected:
  int32_t RunningOf(const Request& request, bool same_request) const {
    int32_t running = 0;
    for (const auto& one : members_) {
      const Request& other = one->sequence.request;
      const bool same = other.priority == request.priority && other.owner == request.owner &&
                        (!same_request || other.of() == request.of());
      if (one->runs && same) ++running;
    }
    return running;
  }

  // The definition of DemandBefore, by a walk over all.
  PlaceShares::Demand Before(const Request& request) const {
    PlaceShares::Demand sum;
    for (const auto& one : members_) {
      const Request& other = one->sequence.request;
      if (!one->waits || other.priority > request.priority) continue;
      if (other.priority == request.priority) {
        const bool same_request = other.owner == request.owner;
        if (RunningOf(other, same_request) > RunningOf(request, same_request)) continue;
      }
      ++sum.sequences;
      sum.blocks += (one->sequence.total() + kTokensOfBlock - 1) / kTokensOfBlock;
    }
    return sum;
  }

  PlaceShares shares_{kTokensOfBlock};
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(PlaceSharesTest, DemandBeforeIsThatOfAWalkOverAllThatWait) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    ASSERT_TRUE(members_.empty());
    for (uint64_t at = 1; at <= 400; ++at) {
      if (members_.size() < 40 && random.Between(0, 2) > 0) {
        auto member = std::make_unique<Member>();
        Sequence& sequence = member->sequence;
        sequence.request.id = RequestId(at);
        sequence.request.priority = static_cast<int32_t>(random.Between(0, 1));
        sequence.request.owner = {0, static_cast<uint64_t>(random.Between(0, 3))};
        if (random.Chance(0.5))
          sequence.request.first_output = RequestId(random.Between(1000, 1002));
        sequence.tokens.resize(random.Between(1, 100));
        sequence.place = sequence.arrival = at;
        members_.push_back(std::move(member));
      }
      if (members_.empty()) continue;
      const size_t index = static_cast<size_t>(random.Between(0, std::ssize(members_) - 1));
      Member* const one = members_[index].get();
      if (one->waits) {
        shares_.Unwait(&one->sequence);
        one->waits = false;
        one->runs = random.Chance(0.5);
        if (one->runs) shares_.Run(&one->sequence);
      } else if (one->runs) {
        shares_.Stop(&one->sequence);
        members_.erase(members_.begin() + static_cast<ptrdiff_t>(index));
      } else {
        shares_.Wait(&one->sequence);
        one->waits = true;
      }
      // Some of them after every step: all in a few steps.
      for (size_t i = at % 8; i < members_.size(); i += 8) {
        const Request& asked = members_[i]->sequence.request;
        const PlaceShares::Demand found = shares_.DemandBefore(asked);
        const PlaceShares::Demand walked = Before(asked);
        ASSERT_EQ(found.sequences, walked.sequences) << "seed " << seed << ", step " << at;
        ASSERT_EQ(found.blocks, walked.blocks) << "seed " << seed << ", step " << at;
      }
    }
    for (const auto& one : members_) {
      if (one->waits) shares_.Unwait(&one->sequence);
      if (one->runs) shares_.Stop(&one->sequence);
    }
    members_.clear();
  }
}

}  // namespace
}  // namespace tutti::coordinator
