#include "model/rotary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/limits.h"

namespace tutti::model {
namespace {

using Scaling = RopeConfig::Scaling;

RopeConfig Rope(Scaling scaling) {
  RopeConfig rope;
  rope.theta = 10000;
  rope.rotary_dim = 128;
  rope.scaling = scaling;
  rope.factor = 4;
  rope.original_context = 8192;
  return rope;
}

TEST(RopeFrequencies, FallFromOneByTheBase) {
  const std::vector<float> f = RopeFrequencies(Rope(Scaling::kNone), 128);
  ASSERT_EQ(f.size(), 64u);
  EXPECT_EQ(f[0], 1.0f);
  for (size_t i = 0; i < f.size(); ++i) {
    EXPECT_NEAR(f[i] * std::pow(10000.0, static_cast<double>(i) / 64), 1, 1e-6);
  }
}

TEST(RopeFrequencies, LinearDividesAll) {
  const std::vector<float> plain = RopeFrequencies(Rope(Scaling::kNone), 128);
  const std::vector<float> scaled = RopeFrequencies(Rope(Scaling::kLinear), 128);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] / 4);
}

// High frequencies are kept, low ones divided, and the ramp between them never rises.
TEST(RopeFrequencies, Llama3AndYarnKeepTheFastAndDivideTheSlow) {
  const std::vector<float> plain = RopeFrequencies(Rope(Scaling::kNone), 128);
  for (const Scaling scaling : {Scaling::kLlama3, Scaling::kYarn}) {
    const std::vector<float> scaled = RopeFrequencies(Rope(scaling), 128);
    EXPECT_EQ(scaled.front(), plain.front());
    EXPECT_FLOAT_EQ(scaled.back(), plain.back() / 4);
    double last = 1;
    for (size_t i = 0; i < plain.size(); ++i) {
      const double kept = static_cast<double>(scaled[i]) / plain[i];
      EXPECT_LE(kept, last + 1e-6);
      EXPECT_GE(kept, 0.25 - 1e-6);
      last = kept;
    }
  }
}

// Every bound of the configuration's numbers gives numbers.
TEST(RopeFrequencies, AreFiniteAtTheLimits) {
  for (const Scaling scaling : {Scaling::kLinear, Scaling::kLlama3, Scaling::kYarn,
                                Scaling::kDynamicNtk, Scaling::kDynamic}) {
    for (const double theta : {1.0001, 1e12}) {
      for (const int64_t dim : {4, 128, 1024}) {
        for (const int64_t context : {int64_t{1}, kContextMax}) {
          RopeConfig rope = Rope(scaling);
          rope.theta = theta;
          rope.rotary_dim = dim;
          rope.original_context = context;
          rope.factor = kRopeFactorMax;
          rope.beta_fast = kRopeFactorMax;
          rope.beta_slow = kRopeNumberMin;
          for (const float f : RopeFrequencies(rope, dim, RopeVariant(rope, kContextMax))) {
            EXPECT_TRUE(std::isfinite(f) && f >= 0);
          }
        }
      }
    }
  }
}

// ChatGLM: the first half of each head turns in neighbouring pairs.
TEST(RotaryOrder, PutsPartnersHalfAHeadApart) {
  RopeConfig rope = Rope(Scaling::kNone);
  EXPECT_EQ(RotaryOrder(rope, 128), (std::vector<HeadSlice>{{0, 128, 1}}));
  for (const bool interleaved : {false, true}) {
    for (const int64_t dim : {4, 8, 16}) {
      rope.rotary_dim = dim;
      rope.interleaved = interleaved;
      std::vector<int64_t> order;
      for (const HeadSlice& slice : RotaryOrder(rope, 16)) {
        for (int64_t i = 0; i < slice.count; ++i) order.push_back(slice.first + i * slice.step);
      }
      ASSERT_EQ(order.size(), 16u);
      const std::vector<float> f = RopeFrequencies(rope, 16);
      ASSERT_EQ(f.size(), 8u);
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t a = order[i], b = order[i + 8];
        if (i >= dim / 2) {
          EXPECT_TRUE(f[i] == 0 && a >= dim && b >= dim);
        } else {
          EXPECT_EQ(a, interleaved ? 2 * i : i);
          EXPECT_EQ(b, interleaved ? 2 * i + 1 : i + dim / 2);
          EXPECT_GT(f[i], 0);
        }
      }
      std::sort(order.begin(), order.end());
      for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(order[i], i);
    }
  }
}

TEST(RopeVariant, DoublesAtEveryDoublingOfThePrompt) {
  const RopeConfig rope = Rope(Scaling::kDynamicNtk);
  EXPECT_EQ(RopeVariant(rope, 1), 1);
  EXPECT_EQ(RopeVariant(rope, 8192), 1);
  EXPECT_EQ(RopeVariant(rope, 8193), 3);
  EXPECT_EQ(RopeVariant(rope, 16384), 3);
  EXPECT_EQ(RopeVariant(rope, 16385), 7);
  EXPECT_EQ(RopeVariant(rope, 32768), 7);
  EXPECT_EQ(RopeVariant(rope, 32769), 15);
  EXPECT_EQ(RopeVariant(Rope(Scaling::kYarn), 1 << 20), 1);
}

// ntk_alpha as the published code computes it: 2 ^ ceil(log2(n / s) + 1) - 1, at least 1.
TEST(RopeVariant, IsThePublishedFormula) {
  for (const int64_t trained : {7, 16, 2048, 8192}) {
    RopeConfig rope = Rope(Scaling::kDynamicNtk);
    rope.original_context = trained;
    for (int64_t n = 1; n < 9 * trained; n += 1 + n / 50) {
      const double context = std::log2(static_cast<double>(n) / static_cast<double>(trained)) + 1;
      const double alpha = std::max(std::exp2(std::ceil(context)) - 1, 1.0);
      EXPECT_EQ(RopeVariant(rope, n), static_cast<int64_t>(alpha)) << n << " of " << trained;
    }
  }
}

// HuggingFace's: the whole prompt by its length, then every token by its own.
TEST(RopeVariant, OfDynamicScalingIsTheLength) {
  const RopeConfig rope = Rope(Scaling::kDynamic);
  EXPECT_EQ(RopeVariant(rope, 8192), 1);
  EXPECT_EQ(RopeVariant(rope, 8193), 8193);
  EXPECT_EQ(RopeVariantAt(rope, 1, 8191), 1);
  EXPECT_EQ(RopeVariantAt(rope, 1, 8192), 8193);
  EXPECT_EQ(RopeVariantAt(rope, 9000, 5), 9000);
  EXPECT_EQ(RopeVariantAt(rope, 9000, 8999), 9000);
  EXPECT_EQ(RopeVariantAt(rope, 9000, 9000), 9001);
  EXPECT_EQ(RopeVariantAt(Rope(Scaling::kDynamicNtk), 3, 100000), 3);
  const std::vector<float> plain = RopeFrequencies(Rope(Scaling::kNone), 128);
  EXPECT_EQ(RopeFrequencies(rope, 128), plain);
  // At twice the length the slowest pair is 4 * 2 - 3 times as slow, the fastest as fast.
  const std::vector<float> twice = RopeFrequencies(rope, 128, 2 * 8192);
  EXPECT_EQ(twice.front(), 1);
  EXPECT_NEAR(plain.back() / twice.back(), 5, 1e-3);
}

TEST(LognScale, BeginsBehindTheTrainedLength) {
  EXPECT_EQ(LognScale(0, 1 << 20), 1.0f);
  EXPECT_EQ(LognScale(8192, 8190), 1.0f);
  EXPECT_EQ(LognScale(8192, 8191), 1.0f);
  EXPECT_GT(LognScale(8192, 8192), 1.0f);
  EXPECT_FLOAT_EQ(LognScale(256, 65535), 2.0f);
}

}  // namespace
}  // namespace tutti::model
