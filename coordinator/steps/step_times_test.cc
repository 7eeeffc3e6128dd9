// The times that steps take, as predicted and as learnt.
#include "coordinator/steps/step_times.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tutti::coordinator {
namespace {

// 100 ms for the weights, 10 ms for a row's products; 0 rows a second: of unknown speed.
placement::StagePlacement Stage(bool known) {
  placement::StagePlacement stage;
  stage.num_layers = 1;
  stage.cost.layer_bytes = 1e8;
  stage.cost.layer_flops = 1e7;
  if (known) stage.speed = {.read_bytes_per_second = 1e9, .flops_per_second = 1e9};
  return stage;
}

placement::StepLoad Rows(double rows) {
  return {.rows = rows, .depth = 0, .kv_tokens = 0, .sampled = 1};
}

TEST(LoadSumTest, AddsSequencesUp) {
  LoadSum sum;
  sum.Add(/*first=*/100, /*count=*/1, /*sample=*/true);
  sum.Add(/*first=*/0, /*count=*/3, /*sample=*/false);
  const placement::StepLoad load = sum.load();
  EXPECT_EQ(load.rows, 4);
  EXPECT_EQ(load.kv_tokens, 101 + 3);
  EXPECT_EQ(load.depth, (101.0 + 1 + 2 + 3) / 4);
  EXPECT_EQ(load.sampled, 1);
}

TEST(StepTimesTest, PredictedBeforeTheFirstStep) {
  EXPECT_FALSE(StepTimes().Predict(Rows(1)).has_value());
  EXPECT_FALSE(StepTimes({Stage(true), Stage(false)}).Predict(Rows(1)).has_value())
      << "of one stage nothing is known";
  const StepTimes times({Stage(true), Stage(true)});
  EXPECT_DOUBLE_EQ(*times.Predict(Rows(1)), 0.2);
  EXPECT_DOUBLE_EQ(*times.Predict(Rows(100)), 2.0);
  EXPECT_TRUE(times.seen().empty());
}

TEST(StepTimesTest, LearntWhereNoSpeedIsKnown) {
  StepTimes times({Stage(false)});
  times.OnStep(0, Rows(1), 0.1);
  EXPECT_NEAR(*times.Predict(Rows(1)), 0.1, 1e-6);
  EXPECT_GT(*times.Predict(Rows(64)), 0.3);
  for (int step = 0; step < 5; ++step) times.OnStep(0, Rows(64), 0.7);
  EXPECT_NEAR(*times.Predict(Rows(64)), 0.7, 1e-6);
  EXPECT_NEAR(*times.Predict(Rows(1)), 0.1, 1e-6);
  const double between = *times.Predict(Rows(16));
  EXPECT_GT(between, 0.1);
  EXPECT_LT(between, 0.7);
}

TEST(StepTimesTest, CorrectsThePredictionBySizeAndStage) {
  StepTimes times({Stage(true), Stage(true)});
  for (int step = 0; step < 5; ++step) {
    times.OnStep(0, Rows(1), 0.1);    // as predicted
    times.OnStep(0, Rows(100), 2.0);  // twice as long
    times.OnStep(1, Rows(100), 1.0);
  }
  EXPECT_NEAR(*times.Predict(Rows(1)), 0.2, 1e-6);
  EXPECT_NEAR(*times.Predict(Rows(100)), 3.0, 1e-6);
  EXPECT_NEAR(*times.Predict(Rows(80)), 2.4, 1e-6) << "a step of about as many rows";
  // For both stages the same sizes are told.
  ASSERT_EQ(times.seen().size(), 2u);
  EXPECT_EQ(times.seen()[1].rows, 128);
  EXPECT_NEAR(times.seen()[1].seconds, 1.28 * 3, 1e-5);
}

// One step in four takes up to ten times as long, because of another process.
TEST(StepTimesTest, NoiseChangesLittle) {
  Random random(7);
  StepTimes times({Stage(false)});
  double worst = 0;
  for (int step = 0; step < 1000; ++step) {
    const double noise = random.Chance(0.25) ? 1 + 9 * random.Uniform() : 1;
    times.OnStep(0, Rows(40), 0.2 * noise * (0.95 + 0.1 * random.Uniform()));
    if (step >= 6) worst += *times.Predict(Rows(40)) > 0.25;
  }
  EXPECT_LT(worst, 1000 * 0.15) << "the median of seven is of an undisturbed step mostly";
  for (int step = 0; step < 4; ++step) times.OnStep(0, Rows(40), 0.6);
  EXPECT_NEAR(*times.Predict(Rows(40)), 0.6, 0.01) << "but a lasting change is soon believed";
}

// A step that was disturbed, of a size that had none before: nobody would dare to plan another.
TEST(StepTimesTest, OneDisturbedStepIsNotBelievedWhereOthersAreKnown) {
  StepTimes times({Stage(true)});
  for (int step = 0; step < 5; ++step) times.OnStep(0, Rows(8), 0.1);
  times.OnStep(0, Rows(64), 5.0);
  EXPECT_LT(*times.Predict(Rows(64)), 0.8);
  EXPECT_LT(*times.Predict(Rows(32)), 0.4) << "nor by the sizes beside it";
  for (int step = 0; step < 2; ++step) times.OnStep(0, Rows(64), 0.64);
  EXPECT_NEAR(*times.Predict(Rows(64)), 0.64, 0.01);
}

// The first steps of a size were slow; since then nobody dared to plan one.
TEST(StepTimesTest, ABadBeginningIsForgotten) {
  StepTimes times({Stage(true)});
  for (int step = 0; step < 3; ++step) times.OnStep(0, Rows(64), 5.0);
  EXPECT_NEAR(*times.Predict(Rows(64)), 5.0, 1e-5);
  double last = 5.0;
  for (int step = 0; step < 20'000; ++step) {
    times.OnStep(0, Rows(8), 0.1);
    const double now = *times.Predict(Rows(64));
    EXPECT_LE(now, last + 1e-9);
    EXPECT_GT(now, 0.85 * last) << "little by little";
    last = now;
  }
  EXPECT_NEAR(last, 0.64, 1e-6) << "as predicted, like the sizes that were seen";
  times.OnStep(0, Rows(64), 0.7);
  EXPECT_LT(*times.Predict(Rows(64)), 0.8);
}

TEST(StepTimesTest, TimesOfNothingAreLeftOut) {
  StepTimes times({Stage(false)});
  times.OnStep(0, Rows(0), 1.0);
  times.OnStep(0, Rows(4), 0.0);
  EXPECT_FALSE(times.Predict(Rows(4)).has_value());
}

TEST(StepTimesTest, APassOfTheDraftModelIsTheMedianOfSome) {
  StepTimes times({Stage(false)});
  times.OnStep(0, Rows(1), 0.1);
  times.OnDrafts(1, 5.0);  // it had still to read the prompt
  times.OnDrafts(4, 0.04);
  EXPECT_FALSE(times.draft_pass_seconds().has_value());
  times.OnDrafts(2, 0.02);
  EXPECT_NEAR(times.draft_pass_seconds().value_or(0), 0.01, 1e-6);
  times.OnDrafts(0, 3.0);
  times.OnDrafts(1, 0);
  for (int i = 0; i < 4; ++i) times.OnDrafts(1, 0.03);
  EXPECT_NEAR(times.draft_pass_seconds().value_or(0), 0.03, 1e-6);
  // What is not asked for costs less and less.
  for (int i = 0; i < 512 * 10; ++i) times.OnStep(0, Rows(1), 0.1);
  EXPECT_NEAR(times.draft_pass_seconds().value_or(0), 0.03 * 0.3487, 1e-5);
  StepTimes none;
  none.OnDrafts(1, 0.1);
  EXPECT_FALSE(none.draft_pass_seconds().has_value());
}

}  // namespace
}  // namespace tutti::coordinator
