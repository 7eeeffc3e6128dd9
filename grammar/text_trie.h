// Texts as a tree of their bytes, with the numbers of those below every place of it.
//
// Immutable after construction.  Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "grammar/build_work.h"

namespace tutti::grammar {

// Bytes that lead to nothing but each other are one edge, and the places on it are numbered one
// after the other: long texts take their bytes and little more.
class TextTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kRoot = 0;

  // Of (text, its number); a text may be there once only. Without `numbered` HasNumber may not be
  // asked.
  TextTrie(std::vector<std::pair<std::string, uint32_t>> texts, bool numbered, BuildWork* work);

  // The place after another byte; kNone: no text goes on like this.
  uint32_t Step(uint32_t place, uint8_t byte) const;
  // The number of the text that ends here; kNone: none does.
  uint32_t EndsHere(uint32_t place) const {
    const Edge& edge = edges_[EdgeOf(place)];
    return place == edge.last() ? edge.ends : kNone;
  }
  bool GoesOn(uint32_t place) const {
    const Edge& edge = edges_[EdgeOf(place)];
    return place != edge.last() || edge.below_begin != edge.below_end;
  }
  // Whether a text here or below has a number in [first, last].
  bool HasNumber(uint32_t place, uint32_t first, uint32_t last) const;

 private:
  // Leads to a node; `size` bytes from `bytes` on in bytes_. The root's has a place and no bytes.
  struct Edge {
    uint32_t place = 0;  // the first one
    uint32_t bytes = 0;
    uint32_t size = 0;
    uint32_t ends = kNone;
    uint32_t below_begin = 0;  // in below_: edges, by ascending first bytes
    uint32_t below_end = 0;
    uint32_t numbers_begin = 0;  // in numbers_, ascending
    uint32_t numbers_end = 0;

    uint32_t last() const { return place + (size == 0 ? 0 : size - 1); }
  };
  uint32_t EdgeOf(uint32_t place) const {
    const auto after =
        std::upper_bound(edges_.begin(), edges_.end(), place,
                         [](uint32_t p, const Edge& edge) { return p < edge.place; });
    return static_cast<uint32_t>(after - edges_.begin()) - 1;
  }

  std::vector<Edge> edges_;  // by ascending places
  std::vector<uint32_t> below_;
  std::string bytes_;
  std::vector<uint32_t> numbers_;
};

}  // namespace tutti::grammar
