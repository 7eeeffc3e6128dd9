#include "coordinator/steps/prompt_lookup.h"

#include <algorithm>

#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

// A sum of products, of which the upper bits depend on all tokens: it takes no longer than one of
// them, as none waits for another.
TextIndex::Key TextIndex::KeyOf(std::span<const TokenId> text, int32_t place) {
  static_assert(kEqualMin == 3);
  const auto at = [&](int32_t i) {
    return static_cast<uint64_t>(static_cast<uint32_t>(text[static_cast<size_t>(place - i)]));
  };
  const uint64_t hash =
      at(1) * 0x9e3779b97f4a7c15 + at(2) * 0xc2b2ae3d27d4eb4f + at(3) * 0x165667b19e3779f9;
  return {.slot = static_cast<uint32_t>(hash >> (64 - kPartBits)),
          .tag = static_cast<uint32_t>(hash >> (64 - kPartBits - 32)) & ~kPlaceMask};
}

void TextIndex::Add(std::span<const TokenId> text, int32_t most, int64_t parts_max) {
  const auto end = static_cast<int32_t>(std::min(
      {static_cast<int64_t>(text.size()), int64_t{size_} + most, parts_max * kPartTokens}));
  while (size_ < end) {
    if (size_ % kPartTokens == 0) parts_.push_back(std::make_unique_for_overwrite<Part>());
    Part& part = *parts_.back();
    const int32_t part_end = std::min(end, static_cast<int32_t>(parts()) * kPartTokens);
    // A place has kEqualMin tokens before it at least.
    for (size_ = std::max(size_, std::min(kEqualMin, part_end)); size_ < part_end; ++size_) {
      const Key key = KeyOf(text, size_);
      const int32_t place = size_ % kPartTokens;
      Entry& latest = part.latest[key.slot];
      part.before[static_cast<size_t>(place)] = latest;
      latest = key.tag | static_cast<Entry>(place + 1);
    }
  }
}

int32_t TextIndex::Find(std::span<const TokenId> text, int32_t* longest_equal) const {
  const auto end = static_cast<int32_t>(text.size());
  if (end < kEqualMin) return -1;
  const Key key = KeyOf(text, end);
  int32_t best = -1;
  int32_t longest = kEqualMin - 1;
  int32_t entries = 0, places = 0;
  for (size_t i = parts_.size(); i-- > 0;) {
    const Part& part = *parts_[i];
    for (Entry entry = part.latest[key.slot]; entry != 0;) {
      if (++entries > kEntriesMax) return best;
      const uint32_t in_part = (entry & kPlaceMask) - 1;
      const bool same = (entry & ~kPlaceMask) == key.tag;
      entry = part.before[in_part];
      if (!same) continue;
      const auto place = static_cast<int32_t>(i * kPartTokens + in_part);
      int32_t equal = 0;
      while (equal < std::min(kEqualMax, place) && text[static_cast<size_t>(place - 1 - equal)] ==
                                                       text[static_cast<size_t>(end - 1 - equal)]) {
        ++equal;
      }
      if (equal > longest) {
        longest = equal;
        best = place;
        if (longest_equal != nullptr) *longest_equal = longest;
      }
      if (longest == kEqualMax || ++places == kPlacesMax) return best;
    }
  }
  return best;
}

PromptLookup::PromptLookup(int64_t bytes_max)
    : parts_max_(bytes_max / TextIndex::kPartBytes), left_(kIndexedInStep) {}

void PromptLookup::BeginStep() { left_ = kIndexedInStep; }

int32_t PromptLookup::Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) {
  const std::span<const TokenId> text(sequence.tokens);
  if (sequence.total() > kLookupTokensMax) {
    Forget(sequence);  // others may have its parts
    return 0;
  }
  auto found = indexes_.find(sequence.request.id);
  if (found == indexes_.end()) {
    if (parts_ == parts_max_) return 0;
    found = indexes_.try_emplace(sequence.request.id).first;
  }
  TextIndex& index = found->second;
  const int32_t size = index.size();
  const int64_t parts = index.parts();
  index.Add(text, std::max(left_, kIndexedLeast), parts + parts_max_ - parts_);
  left_ = std::max(0, left_ - (index.size() - size));
  tokens_ += index.size() - size;
  parts_ += index.parts() - parts;
  int32_t equal = 0;
  const int32_t place = index.Find(text, &equal);
  if (place < 0) return 0;
  // A text that repeats itself goes on with what is guessed.
  const size_t begin = guesses->size();
  for (int32_t i = 0; i < most; ++i) {
    const size_t at = static_cast<size_t>(place + i);
    guesses->push_back(at < text.size() ? text[at] : (*guesses)[begin + at - text.size()]);
  }
  return equal;
}

void PromptLookup::Forget(const Sequence& sequence) {
  const auto found = indexes_.find(sequence.request.id);
  if (found == indexes_.end()) return;
  tokens_ -= found->second.size();
  parts_ -= found->second.parts();
  indexes_.erase(found);
}

}  // namespace tutti::coordinator
