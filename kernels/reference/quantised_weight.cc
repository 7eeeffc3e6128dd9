#include "kernels/reference/quantised_weight.h"

#include <immintrin.h>

#include <cmath>
#include <functional>

#include "kernels/float_formats.h"
#include "kernels/reference/block_sums.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels {
namespace {

float ChainOfF32(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}

// Volatile: no operation may leave the reach of the MXCSR that takes denormals as zero and flushes
// them.
float ChainOfPairs(const std::vector<float>& a, const std::vector<float>& b) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x9fc0);
  volatile float sum = 0;
  for (size_t i = 0; i < a.size(); i += 2) {
    sum = std::fma(a[i + 1], b[i + 1], sum);
    sum = std::fma(a[i], b[i], sum);
  }
  _mm_setcsr(before);
  return sum;
}

float SumOf(SumOrder order, const std::vector<float>& a, const std::vector<float>& b) {
  switch (order) {
    case SumOrder::kF32:
      return ChainOfF32(a, b);
    case SumOrder::kDot:
      return ChainOfPairs(a, b);
    case SumOrder::kBlock:
      return BlockSum(a, b);
  }
  return 0;
}

float Operand(SumOrder order, float x) {
  if (order == SumOrder::kF32) return x;
  return order == SumOrder::kBlock ? RoundOperand(x) : RoundTo(DType::kBF16, x);
}

}  // namespace

SumOrder SumOrderOf(std::string_view numerics_class, DType computed_in) {
  if (computed_in == DType::kF32) return SumOrder::kF32;
  if (numerics_class.find("cpu-bf16dot") != std::string_view::npos) return SumOrder::kDot;
  return numerics_class.find("bf16block") != std::string_view::npos ? SumOrder::kBlock
                                                                    : SumOrder::kF32;
}

absl::StatusOr<std::unique_ptr<ReferenceQuantised>> ReferenceQuantised::Make(
    const QuantisedSource& source) {
  TUTTI_ASSIGN_OR_RETURN(const auto leaf_begin, CheckQuantisedSource(source));
  std::unique_ptr<ReferenceQuantised> weight(new ReferenceQuantised());
  weight->in_ = source.in_features;
  weight->groups_ = source.groups;
  weight->computed_in_ = source.computed_in;
  int32_t section = -1;
  for (const QuantisedPart& part : source.parts) {
    if (weight->sections_.empty() || part.section != section) {
      weight->sections_.push_back({weight->out_, StripsOf(source, leaf_begin, part.group_of)});
      section = part.section;
    }
    weight->AddPart(source, part);
    weight->sections_.back().end = weight->out_;
  }
  return weight;
}

void ReferenceQuantised::AddPart(const QuantisedSource& source, const QuantisedPart& part) {
  for (int64_t r = 0; r < part.rows; ++r, ++out_) {
    for (int64_t k = 0; k < in_; ++k) {
      const int64_t group = r * part.group_stride + part.group_of[static_cast<size_t>(k)];
      const uint8_t zero = part.zeros == nullptr ? MiddleZero(source.kind) : part.zeros[group];
      const float inner = HasInnerScales(source.kind)
                              ? InnerScale(part.inner[r * part.inner_stride + source.inner_of(k)])
                              : 1;
      const float value = CodeValue(source.kind, part.codes[r * part.code_stride + k], zero);
      values_.push_back(value * inner);
    }
    for (int64_t g = 0; g < groups_; ++g) {
      scales_.push_back(LoadAsF32(part.scales, source.scale_type, r * part.group_stride + g));
    }
  }
}

int64_t ReferenceQuantised::bytes() const {
  return static_cast<int64_t>((values_.size() + scales_.size()) * sizeof(float));
}

float ReferenceQuantised::Leaf(const float* row, const Section& section, int64_t n, int64_t leaf,
                               std::optional<SumOrder> order) const {
  const Strips& all = section.strips;
  float sum = 0;
  double exact = 0;
  for (int64_t s = all.leaf_begin[static_cast<size_t>(leaf)];
       s < all.leaf_begin[static_cast<size_t>(leaf) + 1]; ++s) {
    const Strip& strip = all.strips[static_cast<size_t>(s)];
    const float scale = scales_[static_cast<size_t>(n * groups_ + strip.group)];
    std::vector<float> a(static_cast<size_t>(strip.padded())), b(a.size());
    for (int64_t i = 0; i < strip.count; ++i) {
      const int32_t k = all.order[static_cast<size_t>(strip.begin + i)];
      if (k < 0) continue;
      const auto at = static_cast<size_t>(i);
      a[at] = order.has_value() ? Operand(*order, row[k]) : row[k];
      b[at] = values_[static_cast<size_t>(n * in_ + k)];
      exact += static_cast<double>(row[k]) * b[at] * scale;
    }
    if (order.has_value()) sum = std::fma(SumOf(*order, a, b), scale, sum);
  }
  return order.has_value() ? sum : static_cast<float>(exact);
}

float ReferenceQuantised::Element(const float* row, const Section& section, int64_t n,
                                  std::optional<SumOrder> order) const {
  std::vector<float> sums;
  for (int64_t leaf = 0; leaf < section.strips.leaves(); ++leaf) {
    sums.push_back(Leaf(row, section, n, leaf, order));
  }
  while (sums.size() > 1) {
    for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    sums.resize(sums.size() / 2);
  }
  return sums.front();
}

void ReferenceQuantised::MatMul(TensorView in, TensorView out,
                                std::optional<SumOrder> order) const {
  for (int64_t r = 0; r < in.rows; ++r) {
    size_t section = 0;
    for (int64_t n = 0; n < out_; ++n) {
      while (n >= sections_[section].end) ++section;
      out.f32(r)[n] = Element(in.f32(r), sections_[section], n, order);
    }
  }
}

}  // namespace tutti::kernels
