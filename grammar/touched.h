// What an operation has looked at, so that each is counted once in an operation, whether it is
// remembered from earlier ones or not.
//
// Thread: one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tutti::grammar {

// Kept by each of some things that have at most 256 parts.
struct Touch {
  uint64_t operation = 0;
  uint32_t place = 0;  // in Touched
};

class Touched {
 public:
  void BeginOperation() {
    ++operation_;
    parts_.clear();
  }
  uint64_t operation() const { return operation_; }

  // Whether this is the first time in the operation.  REQUIRES: part < 256
  bool First(Touch* touch, uint32_t part) {
    if (touch->operation != operation_) {
      *touch = {operation_, static_cast<uint32_t>(parts_.size())};
      parts_.emplace_back();
    }
    uint64_t& word = parts_[touch->place][part / 64];
    const uint64_t bit = uint64_t{1} << (part % 64);
    if ((word & bit) != 0) return false;
    word |= bit;
    return true;
  }

 private:
  uint64_t operation_ = 1;
  std::vector<std::array<uint64_t, 4>> parts_;  // a bit each
};

}  // namespace tutti::grammar
