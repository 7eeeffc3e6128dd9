#include "grammar/text_trie.h"

#include <bit>

namespace tutti::grammar {
namespace {

size_t CommonSize(const std::string& a, const std::string& b, size_t from) {
  const size_t most = std::min(a.size(), b.size());
  while (from < most && a[from] == b[from]) ++from;
  return from;
}

}  // namespace

TextTrie::TextTrie(std::vector<std::pair<std::string, uint32_t>> texts, bool numbered,
                   BuildWork* work) {
  std::sort(texts.begin(), texts.end());
  // Texts [begin, end) have their first `depth` bytes in common, and begin an edge there.
  struct Group {
    size_t begin, end, depth;
    uint32_t above;  // where the edge's number goes, in below_
  };
  uint32_t places = 0;
  size_t looked_at = texts.size() * (4 + std::bit_width(texts.size())) / 2;
  std::vector<Group> groups = {{0, texts.size(), 0, kNone}};
  while (!groups.empty()) {
    const Group group = groups.back();
    groups.pop_back();
    const auto index = static_cast<uint32_t>(edges_.size());
    if (group.above != kNone) below_[group.above] = index;
    Edge edge{.place = places, .bytes = static_cast<uint32_t>(bytes_.size())};
    size_t depth = group.depth;
    size_t begin = group.begin;
    if (index != 0) {
      depth = CommonSize(texts[begin].first, texts[group.end - 1].first, depth);
      edge.size = static_cast<uint32_t>(depth - group.depth);
      bytes_.append(texts[begin].first, group.depth, edge.size);
    }
    places += std::max<uint32_t>(edge.size, 1);
    looked_at += edge.size / 8 + 6;
    edge.numbers_begin = static_cast<uint32_t>(numbers_.size());
    if (numbered) {
      for (size_t i = begin; i < group.end; ++i) numbers_.push_back(texts[i].second);
      std::sort(numbers_.begin() + edge.numbers_begin, numbers_.end());
      looked_at += (group.end - begin) * std::bit_width(group.end - begin) / 4;
    }
    edge.numbers_end = static_cast<uint32_t>(numbers_.size());
    if (begin < group.end && texts[begin].first.size() == depth) edge.ends = texts[begin++].second;
    edge.below_begin = static_cast<uint32_t>(below_.size());
    while (begin < group.end) {
      // Texts are in order: the first one that has another byte here ends the group.
      const auto end = std::partition_point(
          texts.begin() + static_cast<int64_t>(begin),
          texts.begin() + static_cast<int64_t>(group.end),
          [&](const auto& text) { return text.first[depth] == texts[begin].first[depth]; });
      const auto next = static_cast<size_t>(end - texts.begin());
      groups.push_back({begin, next, depth, static_cast<uint32_t>(below_.size())});
      below_.push_back(0);
      looked_at += 4;
      begin = next;
    }
    edge.below_end = static_cast<uint32_t>(below_.size());
    edges_.push_back(edge);
  }
  work->Add(static_cast<int64_t>(looked_at));
}

uint32_t TextTrie::Step(uint32_t place, uint8_t byte) const {
  const Edge& edge = edges_[EdgeOf(place)];
  if (place != edge.last()) {
    const auto next = static_cast<uint8_t>(bytes_[edge.bytes + (place - edge.place) + 1]);
    return next == byte ? place + 1 : kNone;
  }
  const auto begin = below_.begin() + edge.below_begin;
  const auto end = below_.begin() + edge.below_end;
  const auto found = std::lower_bound(begin, end, byte, [&](uint32_t below, uint8_t b) {
    return static_cast<uint8_t>(bytes_[edges_[below].bytes]) < b;
  });
  if (found == end || static_cast<uint8_t>(bytes_[edges_[*found].bytes]) != byte) return kNone;
  return edges_[*found].place;
}

bool TextTrie::HasNumber(uint32_t place, uint32_t first, uint32_t last) const {
  const Edge& edge = edges_[EdgeOf(place)];
  const auto end = numbers_.begin() + edge.numbers_end;
  const auto found = std::lower_bound(numbers_.begin() + edge.numbers_begin, end, first);
  return found != end && *found <= last;
}

}  // namespace tutti::grammar
