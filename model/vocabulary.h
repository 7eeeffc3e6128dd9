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

namespace tutti {

// The ordinary (not added) tokens of a byte-level vocabulary. Immutable.  Thread: any.
class Vocabulary {
 public:
  struct Entry {
    std::string bytes;  // not empty
    TokenId id = 0;
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

  std::optional<TokenId> Find(std::string_view bytes) const;

  TokenId TokenOfByte(unsigned char byte) const { return byte_tokens_[byte]; }

 private:
  Vocabulary() = default;

  std::vector<char> arena_;        // moved, never reallocated after Create: ids_ points into it
  std::vector<uint32_t> offsets_;  // [size + 1] into arena_
  absl::flat_hash_map<std::string_view, TokenId> ids_;
  std::vector<TokenId> byte_tokens_;  // [256]
};

}  // namespace tutti
