#include "grammar/text_trie.h"

namespace tutti::grammar {

TextTrie::TextTrie(std::vector<std::pair<std::string, uint32_t>> texts) {
  std::sort(texts.begin(), texts.end());
  // Texts [begin, end) have their first `depth` bytes in common and lead to `node`.
  struct Group {
    size_t begin, end, depth;
    uint32_t node;
  };
  nodes_.emplace_back();
  std::vector<Group> work = {{0, texts.size(), 0, kRoot}};
  while (!work.empty()) {
    const Group group = work.back();
    work.pop_back();
    std::vector<uint32_t> numbers;
    for (size_t i = group.begin; i < group.end; ++i) numbers.push_back(texts[i].second);
    std::sort(numbers.begin(), numbers.end());
    nodes_[group.node].numbers = std::move(numbers);
    nodes_[group.node].edges_begin = static_cast<uint32_t>(edges_.size());
    size_t begin = group.begin;
    if (begin < group.end && texts[begin].first.size() == group.depth) {
      nodes_[group.node].ends = texts[begin++].second;
    }
    while (begin < group.end) {
      const char byte = texts[begin].first[group.depth];
      size_t end = begin + 1;
      while (end < group.end && texts[end].first[group.depth] == byte) ++end;
      const auto node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.emplace_back(static_cast<uint8_t>(byte), node);
      work.push_back({begin, end, group.depth + 1, node});
      begin = end;
    }
    nodes_[group.node].edges_end = static_cast<uint32_t>(edges_.size());
  }
}

uint32_t TextTrie::Step(uint32_t node, uint8_t byte) const {
  const auto begin = edges_.begin() + nodes_[node].edges_begin;
  const auto end = edges_.begin() + nodes_[node].edges_end;
  const auto found = std::lower_bound(begin, end, std::pair<uint8_t, uint32_t>(byte, 0));
  return found != end && found->first == byte ? found->second : kNone;
}

}  // namespace tutti::grammar
