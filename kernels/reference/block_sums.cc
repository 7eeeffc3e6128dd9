#include "kernels/reference/block_sums.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/float_formats.h"
#include "kernels/limits.h"

namespace tutti::kernels {
namespace {

constexpr int64_t kBlock = 32;

// While it lives, f32 instructions take denormals as zero and flush them.
class Flushing {
 public:
  Flushing() : before_(_mm_getcsr()) { _mm_setcsr(0x9fc0); }
  ~Flushing() { _mm_setcsr(before_); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  const unsigned before_;
};

// sum + (even + odd) of one block. Volatile: no operation may leave the reach of Flushing.
float AddBlock(std::span<const float> a, std::span<const float> b, float sum) {
  const Flushing flushing;
  volatile float even = 0, odd = 0, total = sum;
  for (size_t i = 0; i < a.size(); ++i) {
    volatile float& chain = i % 2 == 0 ? even : odd;
    chain = std::fma(a[i], b[i], chain);
  }
  if (a.size() + 1 < kBlock) {  // a pair of zeros at least
    even = even + 0.0f;
    odd = odd + 0.0f;
  } else if (a.size() < kBlock) {
    odd = odd + 0.0f;
  }
  const volatile float pair = even + odd;
  total = total + pair;
  return total;
}

// e^x as vector_math.h has it.
float Exp(float x) {
  const float clamped = std::min(88.0f, std::max(-87.3f, x));
  const float n = std::nearbyintf(clamped * 0x1.715476p+0f);
  float r = std::fma(n, -0x1.62e4p-1f, clamped);
  r = std::fma(n, -0x1.7f7d1cp-20f, r);
  float p = 0x1.6d1150p-10f;
  for (const float factor : {0x1.120bb6p-7f, 0x1.55551ap-5f, 0x1.5554dcp-3f, 0.5f}) {
    p = std::fma(p, r, factor);
  }
  p = std::fma(p, r * r, r);
  p = (p + 1.0f) * std::ldexp(1.0f, static_cast<int>(n));
  return x < -87.3f ? 0.0f : p;
}

float SumOfLanes(std::array<float, 16> lanes) {
  for (size_t half : {8, 4, 2, 1}) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// The scores of a tile become weights; their sum.
float Weigh(std::vector<float>* scores, float largest) {
  std::array<float, 16> lanes = {};
  for (size_t i = 0; i < scores->size(); ++i) {
    (*scores)[i] = RoundTo(DType::kBF16, Exp((*scores)[i] - largest));
    lanes[i % 16] += (*scores)[i];
  }
  return SumOfLanes(lanes);
}

std::vector<float> Scores(const BlockAttention& attention, std::span<const float> query,
                          int64_t begin, int64_t end) {
  std::vector<float> scores, key(query.size());
  for (int64_t slot = begin; slot < end; ++slot) {
    for (size_t d = 0; d < key.size(); ++d) key[d] = attention.key(slot, static_cast<int64_t>(d));
    scores.push_back(BlockSum(query, key) * attention.scale);
  }
  return scores;
}

}  // namespace

float RoundOperand(float x) {
  const bool denormal = (std::bit_cast<uint32_t>(x) & 0x7f800000u) == 0;
  return denormal ? std::copysign(0.0f, x) : RoundTo(DType::kBF16, x);
}

float BlockSum(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (size_t begin = 0; begin < a.size(); begin += kBlock) {
    const size_t count = std::min<size_t>(kBlock, a.size() - begin);
    sum = AddBlock(a.subspan(begin, count), b.subspan(begin, count), sum);
  }
  return sum;
}

void AttendInBlocks(const BlockAttention& attention, float* out) {
  std::vector<float> query(attention.query, attention.query + attention.head_dim);
  for (float& x : query) x = RoundOperand(x);
  std::vector<float> sum(query.size());
  float total = 0, largest = -std::numeric_limits<float>::infinity();
  for (int64_t begin = 0; begin < attention.slots; begin += kAttentionTileSlots) {
    const int64_t end = std::min(attention.slots, begin + kAttentionTileSlots);
    std::vector<float> weights = Scores(attention, query, begin, end);
    const float before = largest;
    largest = std::max(largest, *std::max_element(weights.begin(), weights.end()));
    const float shrink = begin == 0 ? 0.0f : Exp(before - largest);
    const float carried = begin == 0 ? 0.0f : total * shrink;
    total = carried + Weigh(&weights, largest);
    for (size_t d = 0; d < sum.size(); ++d) {
      sum[d] = begin == 0 ? 0.0f : sum[d] * shrink;
      std::vector<float> values;
      for (int64_t slot = begin; slot < end; ++slot) {
        values.push_back(attention.value(slot, static_cast<int64_t>(d)));
      }
      for (size_t at = 0; at < values.size(); at += kBlock) {
        const size_t count = std::min<size_t>(kBlock, values.size() - at);
        sum[d] = AddBlock(std::span<const float>(weights).subspan(at, count),
                          std::span<const float>(values).subspan(at, count), sum[d]);
      }
    }
  }
  for (size_t d = 0; d < sum.size(); ++d) out[d] = sum[d] / total + 0.0f;
}

}  // namespace tutti::kernels
