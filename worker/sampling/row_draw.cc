#include "worker/sampling/row_draw.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tutti::worker {
namespace {

// Logits weighed at a time, so that their units are still near when they are added up.
constexpr size_t kBlock = 2048;
// Logits looked at together for any of a range.
constexpr size_t kGlance = 64;

// Whole numbers in the order of candidates: smaller for larger logits, the same for both zeros.
uint32_t KeyOf(float logit) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return (bits >> 31) != 0 ? bits : ~bits & 0x7fffffffu;
}

// The range of an argument: never less for a smaller one.
uint16_t RangeOf(double argument, double ranges_per_argument, double last) {
  const double range = argument * ranges_per_argument;
  // Also of -Inf, which makes no number where all others are equal.
  return static_cast<uint16_t>(static_cast<int32_t>(range < last ? range : last));
}

struct Weighing {
  DrawRule rule;
  double ranges_per_argument;
  double last_range;

  [[gnu::always_inline]] void Block(const float* logits, size_t count, uint64_t* units,
                                    uint16_t* range_of) const {
    for (size_t i = 0; i < count; ++i) units[i] = rule.Units(logits[i]);
    for (size_t i = 0; i < count; ++i) {
      range_of[i] = RangeOf(rule.Argument(logits[i]), ranges_per_argument, last_range);
    }
  }
};

void WeighBlock(const Weighing& weighing, const float* logits, size_t count, uint64_t* units,
                uint16_t* range_of) {
  // A copy that no store can change: the loops become vectors.
  const Weighing constant = weighing;
  constant.Block(logits, count, units, range_of);
}

#if defined(__x86_64__)
// The same operations, and so the same bits, eight at a time.
[[gnu::flatten]] __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) void
WeighBlockAvx512(const Weighing& weighing, const float* logits, size_t count, uint64_t* units,
                 uint16_t* range_of) {
  const Weighing constant = weighing;
  constant.Block(logits, count, units, range_of);
}
[[gnu::flatten]] __attribute__((target("avx2"))) void WeighBlockAvx2(const Weighing& weighing,
                                                                     const float* logits,
                                                                     size_t count, uint64_t* units,
                                                                     uint16_t* range_of) {
  const Weighing constant = weighing;
  constant.Block(logits, count, units, range_of);
}
#endif

using WeighBlockFn = decltype(&WeighBlock);
WeighBlockFn ChooseWeighBlock() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    return WeighBlockAvx512;
  }
  if (__builtin_cpu_supports("avx2")) return WeighBlockAvx2;
#endif
  return WeighBlock;
}

// The least of the logits above -Inf.
float LeastOf(std::span<const float> logits, float largest) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  std::array<float, 16> least;
  least.fill(largest);
  const size_t whole = logits.size() / least.size() * least.size();
  for (size_t i = 0; i < whole; i += least.size()) {
    for (size_t lane = 0; lane < least.size(); ++lane) {
      const float logit = logits[i + lane];
      const float number = logit == kNothing ? largest : logit;
      least[lane] = number < least[lane] ? number : least[lane];
    }
  }
  for (const float logit : logits.subspan(whole)) {
    if (logit != kNothing) least[0] = std::min(least[0], logit);
  }
  return *std::min_element(least.begin(), least.end());
}

}  // namespace

int32_t RowDraw::Draw(const DrawRule& rule, std::span<const float> logits) {
  CHECK(static_cast<int64_t>(logits.size()) == rule.size) << logits.size() << " of " << rule.size;
  logits_ = logits;
  Weigh(rule);
  uint64_t kept = Kept(rule);
  // A total by logarithms may be a little too large. The last that has any weight is it.
  const auto within = [this](uint64_t units) { return std::min(units, all_.units - 1); };
  if (rule.top_p < kWholeShare) {
    kept = Find(By::kUnits, within(ShareOfUp(kept, rule.top_p) - 1)).units;
  }
  return Find(By::kUnits, within(ShareOf(kept, rule.random))).id;
}

void RowDraw::Weigh(const DrawRule& rule) {
  static const WeighBlockFn weigh_block = ChooseWeighBlock();
  const size_t size = logits_.size();
  units_.resize(size);
  range_of_.resize(size);
  // Below one unit the order matters to top_k alone, and not to sums.
  const double least = std::max(rule.Argument(LeastOf(logits_, rule.largest)), rule.least_weighed);
  ranges_per_argument_ = least < 0 ? kParts / least : 0;
  const Weighing weighing = {
      .rule = rule, .ranges_per_argument = ranges_per_argument_, .last_range = kParts - 1};
  ranges_.fill({});
  // Neighbours count in tables of their own: many of one range would wait for each other.
  parts_.fill({});
  for (size_t begin = 0; begin < size; begin += kBlock) {
    const size_t count = std::min(kBlock, size - begin);
    weigh_block(weighing, &logits_[begin], count, &units_[begin], &range_of_[begin]);
    for (size_t i = begin; i < begin + count; ++i) {
      (i % 2 == 0 ? ranges_ : parts_)[range_of_[i]].Add({.count = 1, .units = units_[i]});
    }
  }
  all_ = {};
  for (size_t i = 0; i < kParts; ++i) {
    ranges_[i].Add(parts_[i]);
    all_.Add(ranges_[i]);
  }
}

// Units of the candidates that min_p and top_k keep.
uint64_t RowDraw::Kept(const DrawRule& rule) {
  if (!rule.is_filtered()) return rule.total.value_or(all_.units);
  Part kept = all_;
  if (rule.least_argument > -DrawRule::kInfinity) {
    kept = Part();
    const size_t last = RangeOf(rule.least_argument, ranges_per_argument_, kParts - 1);
    for (size_t range = 0; range < last; ++range) kept.Add(ranges_[range]);
    CollectPart(last);
    for (const uint32_t id : std::span(members_).first(member_count_)) {
      if (rule.Argument(logits_[id]) < rule.least_argument) continue;
      kept.Add({.count = 1, .units = units_[id]});
    }
  }
  const auto top_k = static_cast<uint64_t>(rule.top_k);
  return top_k < kept.count ? Find(By::kCount, top_k - 1).units : kept.units;
}

RowDraw::Place RowDraw::Find(By by, uint64_t value) {
  Part before;
  CollectPart(FindPart(ranges_, by, value, &before));
  while (least_key_ != greatest_key_) Narrow(by, value, &before);
  const uint64_t each = units_[members_[0]];
  const uint64_t ties = by == By::kCount ? value - before.count : (value - before.units) / each;
  CHECK(ties < member_count_) << value << " lies beyond the row";
  return {.id = static_cast<int32_t>(members_[ties]), .units = before.units + (ties + 1) * each};
}

size_t RowDraw::FindPart(const Table& table, By by, uint64_t value, Part* before) {
  const auto passes = [&](const Part& part) {
    return by == By::kCount ? before->count + part.count > value
                            : before->units + part.units > value;
  };
  size_t next = 0;
  while (!passes(table[next])) {
    before->Add(table[next++]);
    CHECK(next < table.size()) << value << " lies beyond the row";
  }
  return next;
}

void RowDraw::CollectPart(size_t part) {
  members_.resize(logits_.size() + 1);
  member_count_ = 0;
  const size_t size = logits_.size();
  const auto range = static_cast<uint16_t>(part);
  for (size_t begin = 0; begin < size; begin += kGlance) {
    const size_t count = std::min(kGlance, size - begin);
    uint16_t hits = 0;
    for (size_t i = 0; i < count; ++i) hits += range_of_[begin + i] == range ? 1 : 0;
    if (hits == 0) continue;
    // Without a branch: where a range is common, none could be foreseen.
    for (size_t i = begin; i < begin + count; ++i) {
      members_[member_count_] = static_cast<uint32_t>(i);
      member_count_ += range_of_[i] == range ? 1 : 0;
    }
  }
  least_key_ = ~uint32_t{0};
  greatest_key_ = 0;
  for (const uint32_t id : std::span(members_).first(member_count_)) {
    least_key_ = std::min(least_key_, KeyOf(logits_[id]));
    greatest_key_ = std::max(greatest_key_, KeyOf(logits_[id]));
  }
}

void RowDraw::Narrow(By by, uint64_t value, Part* before) {
  const int bits = std::bit_width(greatest_key_ - least_key_);
  const int shift = std::max(0, bits - kPartBits);
  const std::span<uint32_t> members = std::span(members_).first(member_count_);
  parts_.fill({});
  for (const uint32_t id : members) {
    parts_[(KeyOf(logits_[id]) - least_key_) >> shift].Add({.count = 1, .units = units_[id]});
  }
  const size_t part = FindPart(parts_, by, value, before);
  const uint32_t base = least_key_;
  least_key_ = ~uint32_t{0};
  greatest_key_ = 0;
  member_count_ = 0;
  for (const uint32_t id : members) {
    const uint32_t key = KeyOf(logits_[id]);
    if ((key - base) >> shift != part) continue;
    members_[member_count_++] = id;
    least_key_ = std::min(least_key_, key);
    greatest_key_ = std::max(greatest_key_, key);
  }
}

}  // namespace tutti::worker
