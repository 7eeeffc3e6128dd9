#include "worker/drafted_blocks.h"

#include <algorithm>

#include "base/fail_point.h"

namespace tutti::worker {

// REQUIRES: the text has all tokens of the block
const Hash128& DraftedBlocks::NameOf(const Text& text, int32_t index) const {
  // Nobody gains by two texts of one name: what is guessed is verified.
  constexpr Hash128 kKey = {.low = 1, .high = 1};
  const auto size = static_cast<size_t>(block_size_);
  while (static_cast<int32_t>(text.names->size()) <= index) {
    const Hash128 parent = text.names->empty() ? Hash128() : text.names->back();
    text.names->push_back(
        HashBlock(kKey, parent, text.tokens.subspan(text.names->size() * size, size)));
  }
  return (*text.names)[static_cast<size_t>(index)];
}

int32_t DraftedBlocks::ComputedTo(const Text& text, int32_t computed, int32_t cached) const {
  const auto known = static_cast<int32_t>(text.tokens.size());
  int32_t to = computed;
  for (; to % block_size_ == 0 && to + block_size_ <= std::min(cached, known); to += block_size_) {
    const int32_t index = to / block_size_;
    const bool holds = names_[text.blocks[index]] == NameOf(text, index);
    if (!holds && !TUTTI_FAIL_POINT("worker.believe_any_block")) break;
  }
  return to;
}

void DraftedBlocks::OnComputed(const Text& text, int32_t first, int32_t end) {
  for (int32_t index = first / block_size_; index * block_size_ < end; ++index) {
    const bool whole = (index + 1) * block_size_ <= end;
    names_[text.blocks[index]] = whole ? NameOf(text, index) : Hash128();
  }
}

}  // namespace tutti::worker
