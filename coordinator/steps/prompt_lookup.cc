#include "coordinator/steps/prompt_lookup.h"

#include <algorithm>

#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

size_t TextIndex::SlotOf(std::span<const TokenId> text, int32_t place) const {
  uint64_t hash = 0;
  for (int32_t i = place - kEqualMin; i < place; ++i) {
    hash = (hash ^ static_cast<uint32_t>(text[static_cast<size_t>(i)])) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return static_cast<size_t>(hash) & (latest_.size() - 1);
}

void TextIndex::Widen(std::span<const TokenId> text) {
  latest_.assign(std::max<size_t>(2 * latest_.size(), 1024), -1);
  for (int32_t place = kEqualMin; place < size(); ++place) {
    int32_t& latest = latest_[SlotOf(text, place)];
    before_[static_cast<size_t>(place)] = latest;
    latest = place;
  }
}

bool TextIndex::Add(std::span<const TokenId> text, int32_t most) {
  const auto all = static_cast<int32_t>(text.size());
  const int32_t end = std::min(all, size() + most);
  for (int32_t place = size(); place < end; ++place) {
    if (before_.size() >= latest_.size()) Widen(text);
    before_.push_back(-1);
    if (place < kEqualMin) continue;
    int32_t& latest = latest_[SlotOf(text, place)];
    before_.back() = latest;
    latest = place;
  }
  return end == all;
}

int32_t TextIndex::Find(std::span<const TokenId> text) const {
  const auto end = static_cast<int32_t>(text.size());
  if (end < kEqualMin || latest_.empty()) return -1;
  int32_t best = -1;
  int32_t longest = kEqualMin - 1;
  int32_t place = latest_[SlotOf(text, end)];
  for (int32_t looked = 0; place >= 0 && looked < kPlacesMax; ++looked) {
    int32_t equal = 0;
    while (equal < std::min(kEqualMax, place) && text[static_cast<size_t>(place - 1 - equal)] ==
                                                     text[static_cast<size_t>(end - 1 - equal)]) {
      ++equal;
    }
    if (equal > longest) {
      longest = equal;
      best = place;
    }
    if (longest == kEqualMax) break;
    place = before_[static_cast<size_t>(place)];
  }
  return best;
}

PromptLookup::PromptLookup(int64_t tokens_max) : tokens_max_(tokens_max) {}

void PromptLookup::Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) {
  const std::span<const TokenId> text(sequence.tokens);
  if (sequence.total() > kLookupTokensMax) return;
  auto found = indexes_.find(sequence.request.id);
  if (found == indexes_.end()) {
    if (tokens_ >= tokens_max_) return;
    found = indexes_.try_emplace(sequence.request.id).first;
  }
  TextIndex& index = found->second;
  const int32_t before = index.size();
  index.Add(text, static_cast<int32_t>(std::min<int64_t>(kIndexedEach, tokens_max_ - tokens_)));
  tokens_ += index.size() - before;
  const int32_t place = index.Find(text);
  if (place < 0) return;
  // A text that repeats itself goes on with what is guessed.
  const size_t begin = guesses->size();
  for (int32_t i = 0; i < most; ++i) {
    const size_t at = static_cast<size_t>(place + i);
    guesses->push_back(at < text.size() ? text[at] : (*guesses)[begin + at - text.size()]);
  }
}

void PromptLookup::Forget(const Sequence& sequence) {
  const auto found = indexes_.find(sequence.request.id);
  if (found == indexes_.end()) return;
  tokens_ -= found->second.size();
  indexes_.erase(found);
}

}  // namespace tutti::coordinator
