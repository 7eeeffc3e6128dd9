// Texts as a tree of their bytes, with the numbers of those below every node.
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

  // The node after another byte; kNone: no text goes on like this.
  uint32_t Step(uint32_t node, uint8_t byte) const;
  // The number of the text that ends here; kNone: none does.
  uint32_t EndsHere(uint32_t node) const { return nodes_[node].ends; }
  bool GoesOn(uint32_t node) const { return nodes_[node].edges_end != nodes_[node].edges_begin; }
  // Whether a text here or below has a number in [first, last].
  bool HasNumber(uint32_t node, uint32_t first, uint32_t last) const {
    const std::vector<uint32_t>& numbers = nodes_[node].numbers;
    const auto found = std::lower_bound(numbers.begin(), numbers.end(), first);
    return found != numbers.end() && *found <= last;
  }

 private:
  struct Node {
    uint32_t edges_begin = 0;  // in edges_
    uint32_t edges_end = 0;
    uint32_t ends = kNone;
    std::vector<uint32_t> numbers;  // ascending
  };
  std::vector<Node> nodes_;
  std::vector<std::pair<uint8_t, uint32_t>> edges_;  // of each node by ascending bytes
};

}  // namespace tutti::grammar
