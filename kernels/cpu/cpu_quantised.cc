#include "kernels/cpu/cpu_quantised.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/slice_count.h"
#include "kernels/host_buffer.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels::cpu {
namespace {

// The codes of a line's inputs, a byte each, as its word: even ones below, odd ones above.
uint32_t WordOfNibbles(const uint8_t* codes) {
  uint64_t bytes;
  std::memcpy(&bytes, codes, sizeof(bytes));
  // Two by two, c0 c2 | c1 c3 and c4 c6 | c5 c7 each in the lowest 16 bits of a half.
  bytes |= bytes >> 12;
  const uint64_t even = bytes & 0x000000ff000000ff, odd = bytes & 0x0000ff000000ff00;
  return static_cast<uint32_t>(even | even >> 24 | odd << 8 | odd >> 16);
}
uint32_t WordOfBytes(const uint8_t* codes) {
  uint32_t bytes;
  std::memcpy(&bytes, codes, sizeof(bytes));
  return (bytes & 0xff0000ffu) | (bytes & 0xff00u) << 8 | (bytes >> 8 & 0xff00u);
}

// One output of a section; null: padding behind the last.
struct OutputRow {
  const uint8_t* codes = nullptr;
  const std::byte* scales = nullptr;
  const uint8_t* zeros = nullptr;
  const uint8_t* inner = nullptr;
};

std::vector<OutputRow> RowsOf(const QuantisedSource& source, int32_t section, int64_t padded) {
  const int64_t scale_bytes = DTypeBytes(source.scale_type);
  std::vector<OutputRow> rows;
  for (const QuantisedPart& part : source.parts) {
    if (part.section != section) continue;
    for (int64_t r = 0; r < part.rows; ++r) {
      const int64_t group = r * part.group_stride;
      rows.push_back({part.codes + r * part.code_stride, part.scales + group * scale_bytes,
                      part.zeros == nullptr ? nullptr : part.zeros + group,
                      part.inner == nullptr ? nullptr : part.inner + r * part.inner_stride});
    }
  }
  rows.resize(static_cast<size_t>(padded));
  return rows;
}

// Packs the groups of one section. Scratch of its own, so each thread has one.
class GroupPacker {
 public:
  GroupPacker(const QuantisedSource& source, const QuantisedSection& section)
      : source_(source), section_(section), middle_(MiddleZero(source.kind)) {}

  // `rows`: the group's 64.
  void Pack(const OutputRow* rows, uint8_t* group) {
    for (int64_t s = 0; s < section_.strips(); ++s) {
      uint8_t* to = group + section_.strip_at[static_cast<size_t>(s)];
      const int64_t number = section_.strip_group[static_cast<size_t>(s)];
      const int64_t element = DTypeBytes(source_.scale_type);
      uint8_t* zeros = to + StripScaleBytes(source_.scale_type);
      uint8_t* inner = zeros + StripZeroBytes(source_.has_zeros());
      uint8_t* lines = inner + StripInnerBytes(source_.kind, Padded(s));
      for (int64_t column = 0; column < kGroupColumns; ++column) {
        const OutputRow& row = rows[column];
        if (row.codes != nullptr) {
          std::memcpy(to + column * element, row.scales + number * element,
                      static_cast<size_t>(element));
        }
        const uint8_t zero = row.zeros == nullptr ? middle_ : row.zeros[number];
        if (source_.has_zeros()) zeros[column] = zero;
        if (HasInnerScales(source_.kind)) PutInner(row, s, inner + column);
        Take(row, s, zero);
        if (LineInputs(source_.kind) == 8) {
          PutWords<8>(column, lines);
        } else {
          PutWords<4>(column, lines);
        }
      }
    }
  }

 private:
  // Inputs of a strip, filled up.
  int64_t Padded(int64_t strip) const {
    const auto s = static_cast<size_t>(strip);
    return 2 * (section_.pair_begin[s + 1] - section_.pair_begin[s]);
  }
  // What a strip has at place `at` of the packed inputs.
  int64_t InputAt(int64_t at) const {
    return section_.order.empty() ? at : section_.order[static_cast<size_t>(at)];
  }
  // A byte for each 16 inputs; the first of them is never a zero.
  void PutInner(const OutputRow& row, int64_t strip, uint8_t* to) const {
    const auto s = static_cast<size_t>(strip);
    for (int64_t i = 0; i < Padded(strip); i += kInnerInputs, to += kGroupColumns) {
      const int64_t at = section_.strip_begin[s] + i;
      const bool filled = row.inner == nullptr || at >= section_.strip_begin[s + 1];
      *to = filled ? 0 : row.inner[source_.inner_of(InputAt(at))];
    }
  }
  // The codes of a strip, filled up with those of zeros. A copy, though they often lie together:
  // rows are 2 or 4 KiB apart, as lines are, and loads wait for stores with the same low bits.
  void Take(const OutputRow& row, int64_t strip, uint8_t zero) {
    const auto s = static_cast<size_t>(strip);
    const int64_t begin = section_.strip_begin[s];
    const int64_t count = row.codes == nullptr ? 0 : section_.strip_begin[s + 1] - begin;
    codes_.resize(static_cast<size_t>(Padded(strip)));
    if (section_.order.empty()) {
      if (count > 0) std::memcpy(codes_.data(), row.codes + begin, static_cast<size_t>(count));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t input = InputAt(begin + i);
        codes_[static_cast<size_t>(i)] = input < 0 ? zero : row.codes[input];
      }
    }
    std::fill(codes_.begin() + count, codes_.end(), zero);
  }
  template <int64_t kInputs>
  void PutWords(int64_t column, uint8_t* lines) const {
    uint8_t* to = lines + column / kUnitColumns * kLineBytes + column % kUnitColumns * 4;
    const uint8_t* const end = codes_.data() + codes_.size();
    for (const uint8_t* codes = codes_.data(); codes < end; codes += kInputs) {
      const uint32_t word = kInputs == 8 ? WordOfNibbles(codes) : WordOfBytes(codes);
      std::memcpy(to, &word, sizeof(word));
      to += kGroupUnits * kLineBytes;
    }
  }

  const QuantisedSource& source_;
  const QuantisedSection& section_;
  const uint8_t middle_;
  std::vector<uint8_t> codes_;
};

QuantisedSection SectionOf(const QuantisedSource& source, const std::vector<int64_t>& leaf_begin,
                           const QuantisedPart& part) {
  Strips strips = StripsOf(source, leaf_begin, part.group_of);
  QuantisedSection section;
  section.number = part.section;
  section.leaf_strip = strips.leaf_begin;
  section.strip_begin.push_back(0);
  section.pair_begin.push_back(0);
  section.strip_at.push_back(0);
  for (const Strip& strip : strips.strips) {
    section.strip_group.push_back(strip.group);
    section.strip_begin.push_back(strip.begin + strip.count);
    section.pair_begin.push_back(section.pair_begin.back() + strip.padded() / 2);
    section.strip_at.push_back(section.strip_at.back() +
                               QuantisedBytes(source.kind, source.scale_type, source.has_zeros(),
                                              kGroupColumns, {1, strip.padded()}));
  }
  if (!strips.in_order) section.order = std::move(strips.order);
  return section;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Weight>> QuantisedWeight::Pack(const QuantisedSource& source,
                                                              ThreadPool* pool) {
  TUTTI_ASSIGN_OR_RETURN(const auto leaf_begin, CheckQuantisedSource(source));
  std::unique_ptr<QuantisedWeight> weight(new QuantisedWeight());
  weight->in_ = source.in_features;
  weight->kind_ = source.kind;
  weight->scale_type_ = source.scale_type;
  weight->computed_in_ = source.computed_in;
  weight->has_zeros_ = source.has_zeros();
  weight->rounds_rows_ = source.rounds_rows;
  int64_t bytes = 0;
  for (const QuantisedPart& part : source.parts) {
    auto& sections = weight->sections_;
    if (sections.empty() || sections.back().number != part.section) {
      if (!sections.empty()) bytes += sections.back().bytes();
      sections.push_back(SectionOf(source, leaf_begin, part));
      sections.back().first_row = weight->out_;
      sections.back().first_byte = bytes;
    }
    sections.back().rows += part.rows;
    weight->out_ += part.rows;
  }
  bytes += weight->sections_.back().bytes();
  auto data = AllocateHost(std::max(bytes, source.bytes_at_least));
  if (!data.ok()) return Annotate(data.status(), "pack weight " + source.name);
  weight->data_ = *std::move(data);
  for (const QuantisedSection& section : weight->sections_) {
    const auto rows = RowsOf(source, section.number, section.groups() * kGroupColumns);
    auto* const to = static_cast<uint8_t*>(weight->data_->data()) + section.first_byte;
    pool->Split(section.groups(), false, [&](int thread, int64_t begin, int64_t end) {
      GroupPacker packer(source, section);
      for (int64_t group = begin; group < end; ++group) {
        packer.Pack(&rows[static_cast<size_t>(group * kGroupColumns)],
                    to + group * section.strip_at.back());
        CountSlice(pool->slices(thread));
      }
    });
  }
  return weight;
}

QuantisedJob QuantisedWeight::JobOf(const QuantisedSection& section) const {
  QuantisedJob job = {};
  job.rows.dtype = computed_in_ == DType::kF32 ? DType::kF32 : DType::kBF16;
  job.rows.weight = static_cast<const uint8_t*>(data_->data()) + section.first_byte;
  job.rows.leaf_pair_begin = section.pair_begin.data();
  job.rows.leaf_begin = section.strip_begin.data();
  job.rows.leaves = section.strips();
  job.kind = kind_;
  job.scale_type = scale_type_;
  job.has_zeros = has_zeros_;
  job.leaves = section.leaves();
  job.leaf_strip = section.leaf_strip.data();
  job.strip_at = section.strip_at.data();
  return job;
}

}  // namespace tutti::kernels::cpu
