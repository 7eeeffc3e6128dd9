// The rule of a draw by three ways that must agree: a plain walk over all candidates in order, the
// first of them as far as they suffice, and the row as a whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "worker/sampling/candidate_walk.h"
#include "worker/sampling/draw_rule.h"
#include "worker/sampling/hard_rows_testing.h"
#include "worker/sampling/row_draw.h"

namespace tutti::worker {
namespace {

constexpr int kSize = 1500;

std::vector<WalkCandidate> InOrder(const std::vector<float>& logits) {
  std::vector<WalkCandidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    all.push_back({.id = static_cast<int32_t>(i), .logit = logits[i], .raw = logits[i]});
  }
  std::sort(all.begin(), all.end(), ListedBefore);
  return all;
}

// A draw as the rule says, one candidate after the other.
int32_t PlainDraw(const DrawRule& rule, const std::vector<WalkCandidate>& all) {
  using Wide = unsigned __int128;
  size_t count = 0;
  uint64_t all_units = 0, kept_units = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const uint64_t units = rule.Units(all[i].logit);
    all_units += units;
    if (i == count && i < static_cast<size_t>(rule.top_k) &&
        rule.Argument(all[i].logit) >= rule.least_argument) {
      ++count;
      kept_units += units;
    }
  }
  uint64_t kept = count < all.size() ? kept_units : rule.total.value_or(all_units);
  if (rule.is_filtered()) kept = kept_units;
  if (rule.top_p < kWholeShare) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
      sum += rule.Units(all[i].logit);
      if (Wide{sum} << kShareBits >= Wide{kept} * rule.top_p) break;
    }
    kept = sum;
  }
  int32_t drawn = -1;
  uint64_t sum = 0;
  for (const WalkCandidate& candidate : all) {
    if (rule.Units(candidate.logit) == 0) break;
    drawn = candidate.id;
    sum += rule.Units(candidate.logit);
    if (sum > static_cast<uint64_t>(Wide{kept} * rule.random >> kShareBits)) break;
  }
  return drawn;
}

double LogSum(const std::vector<WalkCandidate>& all, double inverse_temperature) {
  double sum = 0;
  for (const WalkCandidate& candidate : all) {
    sum += std::exp((double{candidate.logit} - all[0].logit) * inverse_temperature);
  }
  return all[0].logit * inverse_temperature + std::log(sum);
}

std::vector<v1::SequenceSampling> AllParameters() {
  std::vector<v1::SequenceSampling> list;
  for (const float temperature : {1e-5f, 1e-3f, 0.7f, 1.f, 5.f, 100.f, 1e30f}) {
    for (const int top_k : {0, 1, 2, 63, 64, 65, 1000, kSize - 1, kSize, 1 << 30}) {
      for (const float top_p : {0.f, 1e-45f, 1e-6f, 0.5f, 0.9f, 0.99999994f, 1.f}) {
        for (const float min_p : {0.f, 1e-45f, 1e-3f, 0.5f, 1.f}) {
          v1::SequenceSampling& sampling = list.emplace_back();
          sampling.set_temperature(temperature);
          sampling.set_top_k(top_k);
          sampling.set_top_p(top_p);
          sampling.set_min_p(min_p);
          sampling.set_seed(list.size());
        }
      }
    }
  }
  return list;
}

TEST(DrawTest, ListAndRowAgreeWithAPlainWalk) {
  const std::vector<v1::SequenceSampling> parameters = AllParameters();
  CandidateWalk walk;
  RowDraw row_draw;
  int64_t decided_early = 0;
  for (const HardRow& row : HardRows(kSize)) {
    const std::vector<WalkCandidate> all = InOrder(row.logits);
    double inverse = 0, log_sum = 0;
    for (const v1::SequenceSampling& sampling : parameters) {
      if (inverse != 1 / double{sampling.temperature()}) {
        inverse = 1 / double{sampling.temperature()};
        // As much too large as sums of f32 exponentials may be.
        log_sum = LogSum(all, inverse) + 3e-7;
      }
      const DrawRule rule(sampling, kSize, all[0].logit, log_sum, 11);
      const int32_t expected = PlainDraw(rule, all);
      SCOPED_TRACE(row.name + ": " + sampling.ShortDebugString());
      ASSERT_EQ(row_draw.Draw(rule, row.logits), expected);
      for (const size_t portion : {size_t{64}, size_t{1024}, all.size()}) {
        const auto drawn = walk.Draw(rule, std::span(all).first(portion));
        ASSERT_TRUE(drawn.has_value() || portion < all.size());
        if (drawn.has_value()) {
          ASSERT_EQ(drawn->id, expected) << portion;
          decided_early += portion == 64 ? 1 : 0;
        } else {
          ASSERT_GT(walk.needed(), static_cast<int64_t>(portion));
        }
      }
    }
  }
  EXPECT_GT(decided_early, 1000);
}

// A distribution whose candidates can be told by arithmetic, in f64: the share of the weight before
// the drawn one is below the random number, that up to it is above.
TEST(DrawTest, DrawsTheCandidateAtTheRandomShareOfTheWeight) {
  constexpr double kClose = 1e-9;
  for (const HardRow& row : HardRows(kSize)) {
    const std::vector<WalkCandidate> all = InOrder(row.logits);
    for (const float temperature : {0.3f, 1.f, 20.f}) {
      v1::SequenceSampling sampling;
      sampling.set_temperature(temperature);
      const double inverse = 1 / double{temperature};
      const double log_sum = LogSum(all, inverse);
      double total = 0;
      for (const WalkCandidate& candidate : all) {
        total += std::exp((double{candidate.logit} - all[0].logit) * inverse);
      }
      RowDraw row_draw;
      for (uint64_t position = 0; position < 50; ++position) {
        const DrawRule rule(sampling, kSize, all[0].logit, log_sum, position);
        const int32_t drawn = row_draw.Draw(rule, row.logits);
        const double share = RandomUniform(0, position);
        double before = 0;
        size_t i = 0;
        for (; all[i].id != drawn; ++i) {
          before += std::exp((double{all[i].logit} - all[0].logit) * inverse);
        }
        const double after = before + std::exp((double{all[i].logit} - all[0].logit) * inverse);
        ASSERT_LE(before / total, share + kClose) << row.name << " at " << position;
        ASSERT_GE(after / total, share - kClose) << row.name << " at " << position;
      }
    }
  }
}

TEST(DrawTest, UnitsFillTheirBitsForAnyVocabulary) {
  v1::SequenceSampling sampling;
  sampling.set_temperature(100);
  for (const int64_t size : {int64_t{1}, int64_t{259}, int64_t{151936}, int64_t{1} << 21}) {
    const DrawRule rule(sampling, size, 2.5f, 1e9, 0);
    const uint64_t most = rule.Units(2.5f);
    EXPECT_GE(most, uint64_t{1} << 40);
    EXPECT_LT(most, uint64_t{1} << 52);
    EXPECT_LE(most, (uint64_t{1} << 62) / static_cast<uint64_t>(size));
    // A normaliser of nonsense is held within what it can be.
    EXPECT_LE(rule.total.value(), most * static_cast<uint64_t>(size));
    EXPECT_EQ(rule.Units(-std::numeric_limits<float>::infinity()), 0u);
  }
}

}  // namespace
}  // namespace tutti::worker
