// The steps that are known of one state. Most states are left by one byte; those inside strings by
// most of them.
//
// Thread: one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

namespace tutti::grammar {

class Transitions {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  uint32_t Find(uint8_t byte) const {
    if (table_ != nullptr) return table_[byte];
    if (count_ == 0) return kUnknown;
    if (first_byte_ == byte) return first_;
    for (uint32_t i = 0; i + 1 < count_; ++i) {
      if (few_->bytes[i] == byte) return few_->next[i];
    }
    return kUnknown;
  }

  // REQUIRES: unknown. The bytes of memory that it took.
  size_t Add(uint8_t byte, uint32_t next) {
    if (table_ != nullptr) {
      table_[byte] = next;
      return 0;
    }
    if (count_++ == 0) {
      first_byte_ = byte;
      first_ = next;
      return 0;
    }
    const uint32_t at = count_ - 2u;
    if (at == kFew) return MakeTable(byte, next);
    const size_t taken = few_ == nullptr ? sizeof(Few) : 0;
    if (few_ == nullptr) few_ = std::make_unique<Few>();
    few_->bytes[at] = byte;
    few_->next[at] = next;
    return taken;
  }

 private:
  static constexpr uint32_t kFew = 12;
  struct Few {
    std::array<uint8_t, kFew> bytes = {};
    std::array<uint32_t, kFew> next = {};
  };

  size_t MakeTable(uint8_t byte, uint32_t next) {
    table_ = std::make_unique<uint32_t[]>(256);
    std::fill_n(table_.get(), 256, kUnknown);
    table_[first_byte_] = first_;
    for (uint32_t i = 0; i < kFew; ++i) table_[few_->bytes[i]] = few_->next[i];
    table_[byte] = next;
    few_ = nullptr;
    return 256 * sizeof(uint32_t) - sizeof(Few);
  }

  std::unique_ptr<uint32_t[]> table_;  // [256]
  std::unique_ptr<Few> few_;           // behind the first one
  uint32_t first_ = 0;
  uint8_t first_byte_ = 0;
  uint8_t count_ = 0;  // of those that are no table
};

}  // namespace tutti::grammar
