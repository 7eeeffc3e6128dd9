#include "kernels/reference/quantised_weight.h"

#include <immintrin.h>

#include <cmath>
#include <functional>

#include "kernels/float_formats.h"
#include "kernels/reference/block_sums.h"
#include "kernels/row_integers.h"
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
  weight->rounds_rows_ = source.rounds_rows;
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

float ReferenceQuantised::IntegerLeaf(const int16_t* row, float row_scale, const Section& section,
                                      int64_t n, int64_t leaf) const {
  const Strips& all = section.strips;
  int64_t sum = 0;
  if (all.leaf_begin[static_cast<size_t>(leaf)] == all.leaf_begin[static_cast<size_t>(leaf) + 1]) {
    return 0;
  }
  const Strip& strip = all.strips[static_cast<size_t>(all.leaf_begin[static_cast<size_t>(leaf)])];
  for (int64_t k = strip.begin; k < strip.begin + strip.count; ++k) {
    sum += row[k] * static_cast<int64_t>(values_[static_cast<size_t>(n * in_ + k)]);
  }
  const float part = static_cast<float>(sum) * row_scale;
  return std::fma(part, scales_[static_cast<size_t>(n * groups_)], 0.f);
}

template <class LeafSum>
float ReferenceQuantised::Element(const Section& section, const LeafSum& leaf_sum) const {
  std::vector<float> sums;
  for (int64_t leaf = 0; leaf < section.strips.leaves(); ++leaf) sums.push_back(leaf_sum(leaf));
  while (sums.size() > 1) {
    for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    sums.resize(sums.size() / 2);
  }
  return sums.front();
}

void ReferenceQuantised::MatMul(TensorView in, TensorView out, std::optional<SumOrder> order,
                                std::span<const float> largest) const {
  std::vector<int16_t> integers(static_cast<size_t>(in_));
  for (int64_t r = 0; r < in.rows; ++r) {
    const float* const row = in.f32(r);
    float row_scale = 0;
    if (rounds_rows_) {
      row_scale =
          RowScale(largest.empty() ? LargestOfRow(row, in_) : largest[static_cast<size_t>(r)]);
      RoundRow(row, in_, row_scale, integers.data());
    }
    size_t at = 0;
    for (int64_t n = 0; n < out_; ++n) {
      while (n >= sections_[at].end) ++at;
      const Section& section = sections_[at];
      out.f32(r)[n] = Element(section, [&](int64_t leaf) {
        return rounds_rows_ ? IntegerLeaf(integers.data(), row_scale, section, n, leaf)
                            : Leaf(row, section, n, leaf, order);
      });
    }
  }
}

}  // namespace tutti::kernels
