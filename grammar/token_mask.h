// The tokens that may come next. Most masks are of a few tokens, and are held as a list.
//
// Immutable after construction.  Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace tutti::grammar {

class TokenMask {
 public:
  // Of a bit for each id: bit i % 32 of word i / 32.
  explicit TokenMask(const std::vector<uint32_t>& words);

  // REQUIRES: as many words as it was made of
  void CopyTo(std::span<uint32_t> words) const;
  // The id of the only token; nothing when there are others, or none.
  std::optional<TokenId> Only() const;
  size_t bytes() const { return sizeof(TokenMask) + 4 * data_.size(); }

 private:
  bool listed_ = false;  // data_ are the ids, not the words
  std::vector<uint32_t> data_;
};

}  // namespace tutti::grammar
