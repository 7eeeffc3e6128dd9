// The steps that are known of one state. Most states are left by one byte; those inside strings by
// most of them.
//
// Thread: one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tutti::grammar {

class Transitions {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  uint32_t Find(uint8_t byte) const {
    if (table_ != nullptr) return table_->next[byte];
    if (count_ == 0) return kUnknown;
    if (first_byte_ == byte) return first_;
    for (uint32_t i = 0; i + 1 < count_; ++i) {
      if (few_->bytes[i] == byte) return few_->next[i];
    }
    return kUnknown;
  }

  // What the step took when it was made, as Add was told, about.  REQUIRES: known
  int64_t CostOf(uint8_t byte) const {
    if (table_ != nullptr) return Told(table_->costs[byte]);
    if (first_byte_ == byte) return Told(first_cost_);
    for (uint32_t i = 0; i + 1 < count_; ++i) {
      if (few_->bytes[i] == byte) return Told(few_->costs[i]);
    }
    return 0;
  }

  // REQUIRES: unknown. The bytes of memory that it took.
  size_t Add(uint8_t byte, uint32_t next, int64_t cost) {
    if (table_ != nullptr) {
      table_->next[byte] = next;
      table_->costs[byte] = Kept(cost);
      return 0;
    }
    if (count_++ == 0) {
      first_byte_ = byte;
      first_ = next;
      first_cost_ = Kept(cost);
      return 0;
    }
    const uint32_t at = count_ - 2u;
    if (at == kFew) return MakeTable(byte, next, cost);
    const size_t taken = few_ == nullptr ? sizeof(Few) : 0;
    if (few_ == nullptr) few_ = std::make_unique<Few>();
    few_->bytes[at] = byte;
    few_->next[at] = next;
    few_->costs[at] = Kept(cost);
    return taken;
  }

 private:
  static constexpr uint32_t kFew = 12;
  // Small costs as they are, larger ones as the power of two above them.
  static constexpr uint8_t kExactMax = 191;
  static uint8_t Kept(int64_t cost) {
    if (cost <= kExactMax) return static_cast<uint8_t>(cost);
    return static_cast<uint8_t>(kExactMax + std::bit_width(static_cast<uint64_t>(cost)));
  }
  static int64_t Told(uint8_t kept) {
    return kept <= kExactMax ? kept : int64_t{1} << (kept - kExactMax);
  }

  struct Few {
    std::array<uint8_t, kFew> bytes = {};
    std::array<uint8_t, kFew> costs = {};
    std::array<uint32_t, kFew> next = {};
  };
  struct Table {
    std::array<uint32_t, 256> next;
    std::array<uint8_t, 256> costs;
  };

  size_t MakeTable(uint8_t byte, uint32_t next, int64_t cost) {
    table_ = std::make_unique<Table>();
    table_->next.fill(kUnknown);
    table_->next[first_byte_] = first_;
    table_->costs[first_byte_] = first_cost_;
    for (uint32_t i = 0; i < kFew; ++i) {
      table_->next[few_->bytes[i]] = few_->next[i];
      table_->costs[few_->bytes[i]] = few_->costs[i];
    }
    table_->next[byte] = next;
    table_->costs[byte] = Kept(cost);
    few_ = nullptr;
    return sizeof(Table) - sizeof(Few);
  }

  std::unique_ptr<Table> table_;
  std::unique_ptr<Few> few_;  // behind the first one
  uint32_t first_ = 0;
  uint8_t first_byte_ = 0;
  uint8_t first_cost_ = 0;
  uint8_t count_ = 0;  // of those that are no table
};

}  // namespace tutti::grammar
