#include "coordinator/suspicion.h"

#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using Verdict = Suspicion::Verdict;

// Proven; `alone` as said.
Suspicion::Accusation Of(uint64_t loss, int32_t first, int32_t end, bool alone = false) {
  return {.loss = loss, .first = first, .end = end, .alone = alone, .proven = true};
}

TEST(SuspicionTest, TheThirdLossOverTheSameFewRowsIsGuiltIfItWasAlone) {
  Suspicion suspicion;
  suspicion.Accuse(Of(1, 40, 50));
  EXPECT_EQ(suspicion.verdict(), Verdict::kFree);
  suspicion.Accuse(Of(2, 45, 60));
  EXPECT_EQ(suspicion.verdict(), Verdict::kSuspect);
  suspicion.Accuse(Of(3, 45, 50));
  EXPECT_EQ(suspicion.verdict(), Verdict::kSuspect) << "not alone";
  suspicion.Accuse(Of(4, 45, 46, /*alone=*/true));
  EXPECT_EQ(suspicion.verdict(), Verdict::kGuilty);
  suspicion.Acquit(4);
  EXPECT_EQ(suspicion.verdict(), Verdict::kSuspect);
}

// A worker dies of the third guess: the tokens before it come again one by one.
TEST(SuspicionTest, AGuessedRowIsSuspectedUntilItIsComputed) {
  Suspicion suspicion;
  suspicion.Accuse(Of(1, 40, 50));
  for (int32_t computed = 41; computed <= 43; ++computed) {
    suspicion.OnComputed(computed);
    suspicion.OnToken();
    EXPECT_FALSE(suspicion.empty()) << "so nothing is guessed";
  }
  suspicion.Accuse(Of(2, 43, 44));
  EXPECT_EQ(suspicion.verdict(), Verdict::kSuspect);
  suspicion.Accuse(Of(3, 43, 44, /*alone=*/true));
  EXPECT_EQ(suspicion.verdict(), Verdict::kGuilty);
}

// Deaths over other rows count until a token shows that those were none of its doing.
TEST(SuspicionTest, ATokenEndsWhatWentBefore) {
  Suspicion suspicion;
  for (int32_t loss = 1; loss < kDeathsMax; ++loss) {
    const int32_t row = 10 * loss;
    suspicion.Accuse(Of(static_cast<uint64_t>(loss), row, row + 1));
    suspicion.OnComputed(row + 1);
    suspicion.OnToken();
  }
  suspicion.Accuse(Of(100, 1000, 1001, /*alone=*/true));
  EXPECT_EQ(suspicion.verdict(), Verdict::kFree);
}

TEST(SuspicionTest, ManyRowsAreTriedInFewerEachTime) {
  Suspicion suspicion;
  suspicion.Accuse(Of(1, 0, 512));
  suspicion.Accuse(Of(2, 0, 512));
  EXPECT_EQ(suspicion.RowsInTrial(0), 64);
  suspicion.OnComputed(64);
  EXPECT_EQ(suspicion.RowsInTrial(64), 56);
  suspicion.Accuse(Of(3, 64, 120, /*alone=*/true));
  EXPECT_EQ(suspicion.verdict(), Verdict::kSuspect);
  EXPECT_EQ(suspicion.RowsInTrial(0), 64) << "those before it at once";
  EXPECT_EQ(suspicion.RowsInTrial(64), 7);
  EXPECT_GT(suspicion.RowsInTrial(120), 100'000);
  suspicion.Accuse(Of(4, 64, 71, /*alone=*/true));
  EXPECT_EQ(suspicion.verdict(), Verdict::kGuilty);
}

TEST(SuspicionTest, RowsThatAreComputedAcquit) {
  Suspicion suspicion;
  suspicion.Accuse(Of(1, 0, 100));
  suspicion.Accuse(Of(2, 0, 200));
  suspicion.OnComputed(100);
  EXPECT_EQ(suspicion.verdict(), Verdict::kFree);
  EXPECT_EQ(suspicion.losses(), 1);
  suspicion.OnComputed(200);
  EXPECT_TRUE(suspicion.empty());
}

TEST(SuspicionTest, ALossOverOtherRowsIsAnotherMatter) {
  Suspicion suspicion;
  suspicion.Accuse(Of(1, 0, 100));
  suspicion.Accuse(Of(2, 0, 100));
  suspicion.Accuse(Of(3, 100, 200, /*alone=*/true));
  EXPECT_EQ(suspicion.verdict(), Verdict::kFree);
  EXPECT_EQ(suspicion.losses(), 1);
}

TEST(SuspicionTest, WhatIsNotKnownIsWaitedFor) {
  Suspicion suspicion;
  suspicion.Accuse(Of(1, 0, 10));
  suspicion.Accuse(Of(2, 0, 10));
  Suspicion::Accusation open = Of(3, 0, 10, /*alone=*/true);
  open.proven = false;
  suspicion.Accuse(open);
  EXPECT_EQ(suspicion.verdict(), Verdict::kOpen);
  Suspicion dead = suspicion;
  dead.Prove(3);
  EXPECT_EQ(dead.verdict(), Verdict::kGuilty);
  suspicion.Acquit(3);
  EXPECT_EQ(suspicion.verdict(), Verdict::kSuspect);
}

TEST(SuspicionTest, WhatKillsAtAnyRowIsStoppedToo) {
  Suspicion suspicion;
  int32_t deaths = 0;
  for (uint64_t loss = 1; suspicion.verdict() != Verdict::kGuilty; ++loss) {
    const auto at = static_cast<int32_t>(loss % 2) * 100;
    const bool alone = suspicion.verdict() == Verdict::kSuspect;
    suspicion.Accuse(Of(loss, at, at + 100, alone));
    ASSERT_LE(++deaths, kDeathsMax);
  }
  EXPECT_EQ(deaths, kDeathsMax);
}

}  // namespace
}  // namespace tutti::coordinator
