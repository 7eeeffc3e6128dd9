#include "grammar/token_mask.h"

#include <algorithm>
#include <bit>

namespace tutti::grammar {

TokenMask::TokenMask(const std::vector<uint32_t>& words) : listed_(true) {
  // Setting more of them bit by bit is slower than copying the words.
  const size_t most = words.size() / 8;
  for (size_t i = 0; i < words.size() && listed_; ++i) {
    for (uint32_t left = words[i]; left != 0; left &= left - 1) {
      data_.push_back(static_cast<uint32_t>(i * 32) +
                      static_cast<uint32_t>(std::countr_zero(left)));
    }
    listed_ = data_.size() <= most;
  }
  if (!listed_) data_ = words;
  data_.shrink_to_fit();
}

void TokenMask::CopyTo(std::span<uint32_t> words) const {
  if (!listed_) {
    std::ranges::copy(data_, words.begin());
    return;
  }
  std::ranges::fill(words, 0);
  for (const uint32_t id : data_) words[id / 32] |= 1u << (id % 32);
}

std::optional<TokenId> TokenMask::Only() const {
  if (listed_) {
    return data_.size() == 1 ? std::optional(static_cast<TokenId>(data_.front())) : std::nullopt;
  }
  std::optional<TokenId> only;
  for (size_t i = 0; i < data_.size(); ++i) {
    if (data_[i] == 0) continue;
    if (only || !std::has_single_bit(data_[i])) return std::nullopt;
    only = static_cast<TokenId>(i * 32) + std::countr_zero(data_[i]);
  }
  return only;
}

}  // namespace tutti::grammar
