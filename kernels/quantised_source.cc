#include "kernels/quantised_source.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace tutti::kernels {
namespace {

// Of a number of 4 + 3 bits below its sign.
float E4m3Value(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int fraction = code & 7;
  const float magnitude = exponent == 0
                              ? static_cast<float>(fraction) * 0x1p-9f
                              : std::bit_cast<float>(static_cast<uint32_t>(exponent + 120) << 23 |
                                                     static_cast<uint32_t>(fraction) << 20);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

float E2m1Value(uint8_t code) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kMagnitudes[code & 7] : kMagnitudes[code & 7];
}

// Fills up the inputs of each inner scale.
void FillUpInner(const QuantisedSource& source, Strips* strips) {
  std::vector<int32_t> filled;
  for (Strip& strip : strips->strips) {
    const auto begin = static_cast<int64_t>(filled.size());
    for (int64_t i = strip.begin; i < strip.begin + strip.count; ++i) {
      const int32_t input = strips->order[static_cast<size_t>(i)];
      const bool next =
          i > strip.begin &&
          source.inner_of(input) != source.inner_of(strips->order[static_cast<size_t>(i - 1)]);
      while (next && (static_cast<int64_t>(filled.size()) - begin) % kInnerInputs != 0) {
        filled.push_back(-1);
      }
      filled.push_back(input);
    }
    strip.begin = begin;
    strip.count = static_cast<int64_t>(filled.size()) - begin;
  }
  strips->order = std::move(filled);
}

}  // namespace

float CodeValue(CodeKind kind, uint8_t code, uint8_t zero) {
  switch (kind) {
    case CodeKind::kInt4:
    case CodeKind::kInt8:
      return static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
    case CodeKind::kE2m1:
    case CodeKind::kNvfp4:
      return E2m1Value(code);
    case CodeKind::kE4m3:
      return E4m3Value(code);
  }
  return 0;
}

float InnerScale(uint8_t code) { return E4m3Value(code); }

int64_t QuantisedSource::out_features() const {
  int64_t rows = 0;
  for (const QuantisedPart& part : parts) rows += part.rows;
  return rows;
}

int64_t Strips::padded() const {
  int64_t inputs = 0;
  for (const Strip& strip : strips) inputs += strip.padded();
  return inputs;
}

Strips StripsOf(const QuantisedSource& source, std::span<const int64_t> leaf_begin,
                std::span<const int32_t> group_of) {
  Strips found;
  found.order.resize(group_of.size());
  std::iota(found.order.begin(), found.order.end(), 0);
  found.leaf_begin.push_back(0);
  for (size_t leaf = 0; leaf + 1 < leaf_begin.size(); ++leaf) {
    const auto begin = found.order.begin() + leaf_begin[leaf];
    const auto end = found.order.begin() + leaf_begin[leaf + 1];
    std::stable_sort(begin, end, [&](int32_t a, int32_t b) {
      return group_of[static_cast<size_t>(a)] < group_of[static_cast<size_t>(b)];
    });
    for (auto at = begin; at != end; ++at) {
      const int32_t group = group_of[static_cast<size_t>(*at)];
      if (at == begin || found.strips.back().group != group) {
        found.strips.push_back({group, at - found.order.begin(), 0});
      }
      ++found.strips.back().count;
    }
    found.leaf_begin.push_back(static_cast<int64_t>(found.strips.size()));
  }
  if (HasInnerScales(source.kind)) FillUpInner(source, &found);
  found.in_order = std::is_sorted(found.order.begin(), found.order.end());
  return found;
}

}  // namespace tutti::kernels
