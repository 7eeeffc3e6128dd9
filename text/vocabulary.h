// Token ids and the bytes they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/ids.h"

namespace tutti::text {

// The ordinary (not added) tokens of a vocabulary. Immutable.  Thread: any.
class Vocabulary {
 public:
  struct Entry {
    std::string bytes;  // not empty
    TokenId id = 0;
    // The token spells a byte of characters that have no token ("<0x0A>"): never found by its
    // spelling.  REQUIRES: one byte
    bool fallback = false;
  };

  // Errors: InvalidArgument for an id outside [0, kTokenIdMax], an id or bytes given twice, and a
  // byte that no token stands for (text could not be encoded without loss).
  static absl::StatusOr<Vocabulary> Create(std::vector<Entry> entries);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // One more than the largest id; ids in between may be unused.
  TokenId size() const { return static_cast<TokenId>(offsets_.size()) - 1; }

  // The bytes of token `id`; empty when there is none.
  std::string_view Bytes(TokenId id) const {
    if (id < 0 || id >= size()) return {};
    return std::string_view(arena_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]);
  }

  // The token that spells `bytes`, fallback tokens left out.
  std::optional<TokenId> Find(std::string_view bytes) const;

  // The fallback token of the byte where the vocabulary has such, else the token that spells it.
  TokenId TokenOfByte(unsigned char byte) const { return byte_tokens_[byte]; }

 private:
  Vocabulary() = default;
  absl::Status FindBytes(const std::vector<Entry>& entries);

  std::vector<char> arena_;        // moved, never reallocated after Create: ids_ points into it
  std::vector<uint32_t> offsets_;  // [size + 1] into arena_
  absl::flat_hash_map<std::string_view, TokenId> ids_;
  std::vector<TokenId> byte_tokens_;  // [256]
};

}  // namespace tutti::text
