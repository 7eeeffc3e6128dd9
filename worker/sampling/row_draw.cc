#include "worker/sampling/row_draw.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tutti::worker {
namespace {

// Whole numbers in the order of candidates: smaller for larger logits, the same for both zeros.
uint32_t KeyOf(float logit) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return (bits >> 31) != 0 ? bits : ~bits & 0x7fffffffu;
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
  const Place drawn = Find(By::kUnits, within(ShareOf(kept, rule.random)));
  uint64_t ties = drawn.ties_before;
  size_t id = 0;
  while (KeyOf(logits[id]) != drawn.key || ties-- > 0) ++id;
  return static_cast<int32_t>(id);
}

void RowDraw::Weigh(const DrawRule& rule) {
  // A copy that no store can change: the loop becomes vectors.
  const DrawRule constant = rule;
  const size_t size = logits_.size();
  units_.resize(size);
  for (size_t i = 0; i < size; ++i) units_[i] = constant.Units(logits_[i]);
  for (Table& table : tables_) table.prefix = -1;
  Table& first = tables_[0];
  first.prefix = 0;
  first.parts.assign(size_t{1} << kDigitBits, Part());
  for (size_t i = 0; i < size; ++i) {
    Part& part = first.parts[KeyOf(logits_[i]) >> kShifts[0]];
    ++part.count;
    part.units += units_[i];
  }
  all_ = {.count = size};
  for (const Part& part : first.parts) all_.units += part.units;
}

// Units of the candidates that min_p and top_k keep.
uint64_t RowDraw::Kept(const DrawRule& rule) {
  if (!rule.is_filtered()) return rule.total.value_or(all_.units);
  Part kept = all_;
  if (rule.least_argument > -DrawRule::kInfinity) {
    kept = Part();
    for (size_t i = 0; i < logits_.size(); ++i) {
      const bool is_kept = rule.Argument(logits_[i]) >= rule.least_argument;
      kept.count += is_kept ? 1 : 0;
      kept.units += is_kept ? units_[i] : 0;
    }
  }
  const auto top_k = static_cast<uint64_t>(rule.top_k);
  return top_k < kept.count ? Find(By::kCount, top_k - 1).units : kept.units;
}

RowDraw::Place RowDraw::Find(By by, uint64_t value) {
  Part before;
  uint32_t prefix = 0;
  Part found;
  for (int digit = 0; digit < kDigits; ++digit) {
    const Table& table = TableOf(digit, prefix);
    size_t next = 0;
    const auto passes = [&](const Part& part) {
      return by == By::kCount ? before.count + part.count > value
                              : before.units + part.units > value;
    };
    while (!passes(table.parts[next])) {
      before.count += table.parts[next].count;
      before.units += table.parts[next].units;
      ++next;
      CHECK(next < table.parts.size()) << value << " lies beyond the row";
    }
    found = table.parts[next];
    const auto place = static_cast<size_t>(digit);
    const int bits = digit == 0 ? kDigitBits : kShifts[place - 1] - kShifts[place];
    prefix = prefix << bits | static_cast<uint32_t>(next);
  }
  const uint64_t each = found.units / found.count;
  const uint64_t ties = by == By::kCount ? value - before.count : (value - before.units) / each;
  return {.key = prefix, .ties_before = ties, .units = before.units + (ties + 1) * each};
}

const RowDraw::Table& RowDraw::TableOf(int digit, uint32_t prefix) {
  Table& table = tables_[static_cast<size_t>(digit)];
  if (table.prefix == static_cast<int64_t>(prefix)) return table;
  if (digit == 1) {
    // The last table's numbers are of other members.
    tables_[2].prefix = -1;
    // Written without a branch: where a prefix is common, none could be foreseen.
    members_.resize(logits_.size() + 1);
    size_t count = 0;
    for (size_t i = 0; i < logits_.size(); ++i) {
      members_[count] = static_cast<uint32_t>(i);
      count += KeyOf(logits_[i]) >> kShifts[0] == prefix ? 1 : 0;
    }
    member_count_ = count;
  }
  table.prefix = prefix;
  const int above = kShifts[static_cast<size_t>(digit) - 1];
  const int shift = kShifts[static_cast<size_t>(digit)];
  const uint32_t mask = (1u << (above - shift)) - 1;
  table.parts.assign(mask + size_t{1}, Part());
  for (const uint32_t id : std::span(members_).first(member_count_)) {
    const uint32_t key = KeyOf(logits_[id]);
    if (key >> above != prefix) continue;
    Part& part = table.parts[key >> shift & mask];
    ++part.count;
    part.units += units_[id];
  }
  return table;
}

}  // namespace tutti::worker
