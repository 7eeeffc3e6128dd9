#include "coordinator/steps/guess_pace.h"

#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

TEST(GuessPaceTest, GrowsWhileAllIsRightUpToTheMost) {
  GuessPace pace;
  EXPECT_EQ(pace.Next(), 4);
  pace.OnVerified(4, 4);
  EXPECT_EQ(pace.Next(), 8);
  pace.OnVerified(8, 8);
  EXPECT_EQ(pace.Next(), kGuessesMax);
  pace.OnVerified(kGuessesMax, kGuessesMax);
  EXPECT_EQ(pace.Next(), kGuessesMax);
}

TEST(GuessPaceTest, FewerGuessesThanWantedDoNotMakeItLower) {
  GuessPace pace;
  pace.OnVerified(4, 4);
  pace.OnVerified(1, 1);  // as many as the source had
  EXPECT_EQ(pace.Next(), 8);
}

TEST(GuessPaceTest, GuessesOneMoreThanWereRight) {
  GuessPace pace;
  pace.OnVerified(4, 2);
  EXPECT_EQ(pace.Next(), 3);
  pace.OnVerified(3, 0);
  EXPECT_EQ(pace.Next(), 1);
}

// A long passage that repeats itself is believed until it has misled.
TEST(GuessPaceTest, ExpectsMuchOfWhatRepeatsItself) {
  GuessPace pace;
  EXPECT_NEAR(pace.Expected(2), 0.3 + 0.09, 1e-6);
  EXPECT_NEAR(pace.Expected(2, /*repeats=*/true), 0.8 + 0.64, 1e-6);
  pace.OnVerified(4, 0);
  EXPECT_EQ(pace.Expected(2, /*repeats=*/true), pace.Expected(2));
  for (int i = 0; i < 40; ++i) pace.OnVerified(4, 4);
  EXPECT_GT(pace.Expected(2, /*repeats=*/true), 1.9) << "nor less of it than of others";
}

int Pause(GuessPace* pace) {
  int steps = 0;
  while (pace->Next() == 0) ++steps;
  return steps;
}

TEST(GuessPaceTest, PausesAfterMissesAndLongerEachTime) {
  GuessPace pace;
  pace.OnVerified(4, 0);
  pace.OnVerified(2, 0);
  EXPECT_EQ(Pause(&pace), 0);
  pace.OnVerified(1, 0);
  EXPECT_EQ(Pause(&pace), 16);
  EXPECT_EQ(pace.Next(), 1);
  pace.OnVerified(1, 0);
  EXPECT_EQ(Pause(&pace), 32);
  pace.OnVerified(1, 0);
  pace.OnVerified(1, 0);
  EXPECT_EQ(Pause(&pace), 128);
  pace.OnVerified(1, 0);
  EXPECT_EQ(Pause(&pace), 128) << "it is tried again, for ever";
  pace.OnVerified(1, 1);
  EXPECT_EQ(pace.Next(), 2);
  pace.OnVerified(2, 0);
  pace.OnVerified(1, 0);
  EXPECT_EQ(Pause(&pace), 0) << "misses are counted anew";
}

TEST(GuessPaceTest, ExpectsWhatCameOfLate) {
  GuessPace pace;
  EXPECT_NEAR(pace.Expected(2), 0.3 + 0.09, 1e-6);
  for (int i = 0; i < 60; ++i) pace.OnVerified(4, 4);
  EXPECT_NEAR(pace.Expected(4), 4, 0.01);
  for (int i = 0; i < 60; ++i) pace.OnVerified(4, 0);
  EXPECT_LT(pace.Expected(15), 0.01);
  // Half of the guesses that were looked at were right: those behind a wrong one say nothing.
  for (int i = 0; i < 60; ++i) pace.OnVerified(4, 1);
  EXPECT_NEAR(pace.Expected(1), 0.5, 0.01);
}

TEST(GuessPaceTest, IsTriedAgainWhereStepsHadNoTimeForWhatWasWrong) {
  GuessPace pace;
  for (int i = 0; i < 60; ++i) pace.OnVerified(5, i % 3 == 0 ? 1 : 0);
  const double low = pace.Expected(1);
  EXPECT_LT(low, 0.29);
  for (int step = 0; step < 127; ++step) pace.OnTooLong();
  EXPECT_EQ(pace.Expected(1), low);
  pace.OnTooLong();
  EXPECT_NEAR(pace.Expected(1), 0.3, 1e-6);
  pace.OnVerified(1, 0);
  for (int step = 0; step < 127; ++step) pace.OnTooLong();
  EXPECT_LT(pace.Expected(1), 0.29) << "counted anew";
}

}  // namespace
}  // namespace tutti::coordinator
