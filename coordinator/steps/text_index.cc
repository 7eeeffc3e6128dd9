#include "coordinator/steps/text_index.h"

#include <algorithm>

namespace tutti::coordinator {

// A sum of products, of which the upper bits depend on all tokens: it takes no longer than one of
// them, as none waits for another.
PartIndex::Key PartIndex::KeyOf(std::span<const TokenId> text, int32_t place) {
  static_assert(kEqualMin == 3);
  const auto at = [&](int32_t i) {
    return static_cast<uint64_t>(static_cast<uint32_t>(text[static_cast<size_t>(place - i)]));
  };
  const uint64_t hash =
      at(1) * 0x9e3779b97f4a7c15 + at(2) * 0xc2b2ae3d27d4eb4f + at(3) * 0x165667b19e3779f9;
  return {.slot = static_cast<uint32_t>(hash >> (64 - kPartBits)),
          .tag = static_cast<uint32_t>(hash >> (64 - kPartBits - 32)) & ~kPlaceMask};
}

PlaceSearch::PlaceSearch(std::span<const TokenId> text, int32_t entries_max)
    : end_(text.last(std::min<size_t>(text.size(), PartIndex::kEqualMax))),
      key_(PartIndex::KeyOf(end_, static_cast<int32_t>(end_.size()))),
      entries_max_(entries_max) {}

bool PlaceSearch::Look(const PartIndex& part, std::span<const TokenId> text, int32_t first) {
  const auto size = static_cast<int32_t>(end_.size());
  for (PartIndex::Entry entry = part.latest_[key_.slot]; entry != 0;) {
    if (entries_ == entries_max_) return false;
    ++entries_;
    const uint32_t in_part = (entry & PartIndex::kPlaceMask) - 1;
    const bool same = (entry & ~PartIndex::kPlaceMask) == key_.tag;
    entry = part.before_[in_part];
    if (!same) continue;
    const int32_t place = first + static_cast<int32_t>(in_part);
    int32_t equal = 0;
    while (equal < std::min(size, place) && text[static_cast<size_t>(place - 1 - equal)] ==
                                                end_[static_cast<size_t>(size - 1 - equal)]) {
      ++equal;
    }
    if (equal > longest_) {
      longest_ = equal;
      place_ = place;
    }
    if (longest_ == PartIndex::kEqualMax || ++places_ == PartIndex::kPlacesMax) return false;
  }
  return true;
}

void TextIndex::Add(std::span<const TokenId> text, int32_t most, int64_t parts_max) {
  const auto end = static_cast<int32_t>(std::min(
      {static_cast<int64_t>(text.size()), int64_t{size_} + most, parts_max * kPartTokens}));
  while (size_ < end) {
    if (size_ % kPartTokens == 0) parts_.push_back(std::make_unique_for_overwrite<PartIndex>());
    PartIndex& part = *parts_.back();
    const int32_t part_end = std::min(end, static_cast<int32_t>(parts()) * kPartTokens);
    // A place has kEqualMin tokens before it at least.
    for (size_ = std::max(size_, std::min(kEqualMin, part_end)); size_ < part_end; ++size_) {
      part.Add(PartIndex::KeyOf(text, size_), size_ % kPartTokens);
    }
  }
}

int32_t TextIndex::Find(std::span<const TokenId> text, int32_t* equal) const {
  if (static_cast<int32_t>(text.size()) < kEqualMin) return -1;
  PlaceSearch search(text);
  for (size_t i = parts_.size(); i-- > 0;) {
    if (!search.Look(*parts_[i], text, static_cast<int32_t>(i) * kPartTokens)) break;
  }
  if (equal != nullptr) *equal = search.equal();
  return search.place();
}

}  // namespace tutti::coordinator
