#include "grammar/char_set.h"

#include <algorithm>
#include <map>

namespace tutti::grammar {

CharSet::CharSet(std::vector<CharRange> ranges) {
  std::vector<CharRange> cut;
  for (const CharRange& range : ranges) {
    const uint32_t last = std::min(range.last, kCodePointMax);
    if (range.first < kSurrogateBegin && range.first <= last) {
      cut.push_back({range.first, std::min(last, kSurrogateBegin - 1)});
    }
    const uint32_t first = std::max(range.first, kSurrogateEnd);
    if (first <= last) cut.push_back({first, last});
  }
  std::sort(cut.begin(), cut.end());
  for (const CharRange& range : cut) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CharSet::Contains(uint32_t character) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), character,
                       [](uint32_t c, const CharRange& range) { return c < range.first; });
  return after != ranges_.begin() && character <= (after - 1)->last;
}

CharSet CharSet::Complement() const {
  std::vector<CharRange> gaps;
  uint32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kCodePointMax) gaps.push_back({next, kCodePointMax});
  return CharSet(std::move(gaps));
}

CharClasses::CharClasses(const std::vector<const CharSet*>& sets, int64_t work_max) {
  begins_ = {0, kSurrogateBegin, kSurrogateEnd};
  for (const CharSet* set : sets) {
    for (const CharRange& range : set->ranges()) {
      begins_.push_back(range.first);
      if (range.last < kCodePointMax) begins_.push_back(range.last + 1);
    }
  }
  std::sort(begins_.begin(), begins_.end());
  begins_.erase(std::unique(begins_.begin(), begins_.end()), begins_.end());
  class_of_.assign(begins_.size(), 0);
  const size_t surrogates = StretchOf(kSurrogateBegin);
  uint32_t count = 1;
  std::vector<std::pair<size_t, uint32_t>> inside;  // by class: the last set, and its class there
  inside.resize(1, {SIZE_MAX, 0});
  for (size_t s = 0; s < sets.size(); ++s) {
    // A class of which a part lies in the set is split: that part becomes a class of its own.
    for (const CharRange& range : sets[s]->ranges()) {
      for (size_t i = StretchOf(range.first); i < begins_.size() && begins_[i] <= range.last; ++i) {
        const uint32_t old = class_of_[i];
        if (inside[old].first != s) {
          inside[old] = {s, count++};
          inside.emplace_back(SIZE_MAX, 0);
        }
        class_of_[i] = inside[old].second;
        if (++work_ > work_max) return;
      }
    }
  }
  std::map<uint32_t, uint32_t> dense;
  for (size_t i = 0; i < begins_.size(); ++i) {
    if (i == surrogates) {
      class_of_[i] = kNone;
      continue;
    }
    const auto [found, added] =
        dense.try_emplace(class_of_[i], static_cast<uint32_t>(representatives_.size()));
    if (added) representatives_.push_back(begins_[i]);
    class_of_[i] = found->second;
  }
  for (uint32_t c = 0; c < 128; ++c) ascii_.push_back(class_of_[StretchOf(c)]);
}

size_t CharClasses::StretchOf(uint32_t character) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), character);
  return static_cast<size_t>(after - begins_.begin()) - 1;
}

uint32_t CharClasses::Of(uint32_t character) const {
  return character < ascii_.size() ? ascii_[character] : class_of_[StretchOf(character)];
}

}  // namespace tutti::grammar
