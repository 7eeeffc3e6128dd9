// Whether a text holds one of several others, byte by byte: an automaton over their beginnings.
//
// Immutable after construction.  Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "grammar/char_decoder.h"

namespace tutti::grammar {

class TextSearch {
 public:
  // Nothing of them has been read.
  static constexpr uint32_t kStart = 0;
  // One of them ends here.
  static constexpr uint32_t kFound = UINT32_MAX;

  // REQUIRES: valid UTF-8, none of them empty, at most kSearchBytesMax together
  explicit TextSearch(const std::vector<std::string>& texts);

  uint32_t Step(uint32_t state, uint8_t byte) const {
    return next_[state * classes_ + class_of_[byte]];
  }
  // Whether the character under way can become one with which none of the texts ends.
  bool CanMiss(uint32_t state, DecoderState character) const;
  size_t entries() const { return next_.size(); }
  // Bytes of the same class lead to the same.
  uint8_t ClassOf(uint8_t byte) const { return class_of_[byte]; }

 private:
  std::array<uint8_t, 256> class_of_ = {};  // bytes that are in none of them are of class 0
  uint32_t classes_ = 1;
  std::vector<uint32_t> next_;  // [states][classes]
};

}  // namespace tutti::grammar
