#include "worker/pace_model.h"

#include <gtest/gtest.h>

#include "worker/limits.h"

namespace tutti::worker {
namespace {

using kernels::Work;
using std::chrono::seconds;

// A worker of 10 GB/s and 100 Gflop/s.
TEST(PaceModelTest, AllowsMoreForMoreWork) {
  const PaceModel model(1e10, 1e11);
  Duration before = model.Allow({});
  EXPECT_EQ(before, kSliceTimeMin);
  for (const double flops : {1e9, 1e10, 1e11}) {
    const Duration allowed = model.Allow({.bytes = 0, .flops = flops});
    EXPECT_GT(allowed, before);
    EXPECT_NEAR(Seconds(allowed), Seconds(kSliceTimeMin) + kSliceMargin * flops / 1e11, 1e-6);
    EXPECT_GT(model.Allow({.bytes = 1e9, .flops = flops}), allowed);
    before = allowed;
  }
  EXPECT_EQ(model.Allow({.bytes = 1e18, .flops = 1e30}), kSliceTimeMax);
  EXPECT_EQ(model.Allow({.bytes = -1e18, .flops = -1e30}), kSliceTimeMin);
}

TEST(PaceModelTest, LearnsHowSlowItIs) {
  PaceModel model(1e10, 1e11);
  const Work step{.bytes = 0, .flops = 1e11};
  const Work slice{.bytes = 0, .flops = 1e10};
  const Duration at_first = model.Allow(slice);
  model.Learn(step, seconds(4));
  const Duration slower = model.Allow(slice);
  EXPECT_NEAR(Seconds(slower - kSliceTimeMin), 4 * Seconds(at_first - kSliceTimeMin), 1e-3);
  model.Learn(step, seconds(1));
  EXPECT_GT(Seconds(model.Allow(slice)), 0.9 * Seconds(slower)) << "one quick step is no proof";
  for (int i = 0; i < 300; ++i) model.Learn(step, seconds(1));
  EXPECT_NEAR(Seconds(model.Allow(slice)), Seconds(at_first), 0.05);
  model.Learn({}, seconds(100));
  model.Learn(step, Duration());
  EXPECT_NEAR(Seconds(model.Allow(slice)), Seconds(at_first), 0.05) << "nothing to learn from";
}

TEST(PaceModelTest, AWorkerOfUnknownSpeedLearnsItFromItsSteps) {
  PaceModel model(0, 0);
  const Work slice{.bytes = 0, .flops = 1e9};
  EXPECT_EQ(model.Allow(slice), kSliceTimeMin + seconds(8)) << "1 Gflop/s is assumed";
  for (int i = 0; i < 500; ++i) model.Learn({.bytes = 0, .flops = 1e11}, seconds(1));
  EXPECT_NEAR(Seconds(model.Allow(slice)), Seconds(kSliceTimeMin) + 0.08, 0.01);
}

}  // namespace
}  // namespace tutti::worker
