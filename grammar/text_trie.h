// Texts as a tree of their bytes, with the numbers of those below every place.
//
// Immutable after construction.  Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti::grammar {

class TextTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kRoot = 0;

  // Of (text, its number); a text may be there once only.
  explicit TextTrie(std::vector<std::pair<std::string, uint32_t>> texts);

  // The place after another byte; kNone: no text goes on like this.
  uint32_t Step(uint32_t place, uint8_t byte) const;
  // The number of the text that ends here; kNone: none does.
  uint32_t EndsHere(uint32_t place) const { return places_[place].ends; }
  bool GoesOn(uint32_t place) const {
    return places_[place].edges_end != places_[place].edges_begin;
  }
  // Whether a text here or below has a number in [first, last].
  bool HasNumber(uint32_t place, uint32_t first, uint32_t last) const {
    const std::vector<uint32_t>& numbers = places_[place].numbers;
    const auto found = std::lower_bound(numbers.begin(), numbers.end(), first);
    return found != numbers.end() && *found <= last;
  }

 private:
  struct Place {
    uint32_t edges_begin = 0;  // in edges_
    uint32_t edges_end = 0;
    uint32_t ends = kNone;
    std::vector<uint32_t> numbers;  // ascending
  };
  std::vector<Place> places_;
  std::vector<std::pair<uint8_t, uint32_t>> edges_;  // of each place by ascending bytes
};

}  // namespace tutti::grammar
