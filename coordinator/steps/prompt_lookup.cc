#include "coordinator/steps/prompt_lookup.h"

#include <algorithm>
#include <span>

#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

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
