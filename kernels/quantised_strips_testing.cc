#include "kernels/quantised_strips_testing.h"

#include <cmath>
#include <span>
#include <vector>

#include "base/check.h"

namespace tutti::kernels {
namespace {

float ValueOf(const QuantisedSource& source, const QuantisedPart& part, int64_t row, int32_t k) {
  const int64_t group = row * part.group_stride + part.group_of[static_cast<size_t>(k)];
  const uint8_t zero = part.zeros == nullptr ? MiddleZero(source.kind) : part.zeros[group];
  const float value = CodeValue(source.kind, part.codes[row * part.code_stride + k], zero);
  if (!HasInnerScales(source.kind)) return value;
  return value * InnerScale(part.inner[row * part.inner_stride + source.inner_of(k)]);
}

// sum = fma(p, scale, sum) of one strip.
void AddStrip(Backend& backend, Matrix& in, const QuantisedSource& source,
              const QuantisedPart& part, const Strips& strips, const Strip& strip, Matrix* sum) {
  Matrix values(part.rows, strip.padded(), DType::kBF16);
  Matrix rows(in.rows(), strip.padded());
  for (int64_t i = 0; i < strip.padded(); ++i) {
    const int32_t k = i < strip.count ? strips.order[static_cast<size_t>(strip.begin + i)] : -1;
    for (int64_t n = 0; n < part.rows; ++n) {
      values.set(n, i, k < 0 ? 0 : ValueOf(source, part, n, k));
    }
    for (int64_t r = 0; r < in.rows(); ++r) rows.set(r, i, k < 0 ? 0 : in.at(r, k));
  }
  const auto weight = backend.Pack({.parts = {values.view()}, .leaf_begin = {}, .name = "p"});
  CHECK(weight.ok()) << weight.status();
  Matrix p(in.rows(), part.rows);
  backend.MatMul(rows.view(), **weight, p.view());
  for (int64_t n = 0; n < part.rows; ++n) {
    const float scale =
        LoadAsF32(part.scales, source.scale_type, n * part.group_stride + strip.group);
    for (int64_t r = 0; r < in.rows(); ++r) {
      sum->set(r, n, std::fma(p.at(r, n), scale, sum->at(r, n)));
    }
  }
}

}  // namespace

Matrix ExpectedOfStrips(Backend& backend, Matrix& in, const QuantisedSource& source) {
  std::vector<int64_t> leaf_begin = source.leaf_begin;
  if (leaf_begin.empty()) leaf_begin = {0, source.in_features};
  Matrix out(in.rows(), source.out_features(), DType::kF32, 3);
  int64_t first = 0;
  for (const QuantisedPart& part : source.parts) {
    const Strips strips = StripsOf(source, leaf_begin, part.group_of);
    std::vector<Matrix> leaves;
    for (size_t leaf = 0; leaf + 1 < strips.leaf_begin.size(); ++leaf) {
      leaves.emplace_back(in.rows(), part.rows).FillWith(0);
      for (int64_t s = strips.leaf_begin[leaf]; s < strips.leaf_begin[leaf + 1]; ++s) {
        AddStrip(backend, in, source, part, strips, strips.strips[static_cast<size_t>(s)],
                 &leaves.back());
      }
    }
    for (int64_t r = 0; r < in.rows(); ++r) {
      for (int64_t n = 0; n < part.rows; ++n) {
        std::vector<float> sums;
        for (const Matrix& leaf : leaves) sums.push_back(leaf.at(r, n));
        for (size_t count = sums.size(); count > 1; count /= 2) {
          for (size_t i = 0; i < count / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
        }
        out.set(r, first + n, sums[0]);
      }
    }
    first += part.rows;
  }
  return out;
}

}  // namespace tutti::kernels
