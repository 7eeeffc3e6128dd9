#include "coordinator/steps/backlog.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/fail_point.h"
#include "base/random.h"

namespace tutti::coordinator {
namespace {

// Sequences that come to a pipeline, wait, run in chunks, are sent back and leave, at random; after
// each move the sums are compared with a walk. The number of moves after which they were wrong.
int WrongMoves(uint64_t seed) {
  Random random(seed);
  Backlog backlog;
  std::vector<std::unique_ptr<Sequence>> sequences;
  uint64_t last_place = 0;
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    Sequence& sequence = *sequences.emplace_back(std::make_unique<Sequence>());
    sequence.arrival = static_cast<uint64_t>(i) + 1;
    sequence.request.priority = static_cast<int32_t>(random.Between(-2, 2));
    sequence.tokens.resize(random.Between(1, 100));
  }
  std::vector<int> stays(sequences.size(), 0);  // 0: elsewhere, 1: waits, 2: runs
  for (int move = 0; move < 400; ++move) {
    const auto i = static_cast<size_t>(random.Between(0, 19));
    Sequence* const sequence = sequences[i].get();
    if (stays[i] == 0) {
      sequence->place = ++last_place;
      backlog.Wait(sequence);
      stays[i] = 1;
    } else if (stays[i] == 1) {
      EXPECT_TRUE(backlog.Unwait(sequence));
      stays[i] = random.Chance(0.8) ? 2 : 0;
      if (stays[i] == 2 && sequence->behind() > 1) backlog.FallBehind(sequence);
    } else if (sequence->behind() > 0 && random.Chance(0.8)) {
      backlog.Advance(sequence, static_cast<int32_t>(random.Between(1, sequence->behind())));
    } else if (sequence->behind() == 0 && random.Chance(0.5)) {
      sequence->tokens.push_back(1);
    } else {
      EXPECT_EQ(backlog.Forget(sequence), sequence->behind() > 1);
      EXPECT_FALSE(backlog.Unwait(sequence));
      sequence->stay = {};
      stays[i] = 0;
    }
    if (!backlog.SumsAreRight()) ++wrong;
  }
  return wrong;
}

TEST(BacklogTest, SumsAreThoseOfAWalk) {
  for (uint64_t seed = 1; seed <= 50; ++seed) EXPECT_EQ(WrongMoves(seed), 0) << seed;
}

TEST(BacklogTest, AnUpdateLeftOutShows) {
  const ScopedFailPoint armed("coordinator.keep_backlog");
  for (uint64_t seed = 1; seed <= 50; ++seed) EXPECT_GT(WrongMoves(seed), 0) << seed;
}

}  // namespace
}  // namespace tutti::coordinator
