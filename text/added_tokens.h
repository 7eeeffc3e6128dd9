// Tokens that are recognised as whole strings in text, before it is split and merged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "base/ids.h"

namespace tutti::text {

struct AddedToken {
  std::string content;  // valid UTF-8, not empty
  TokenId id = 0;
  bool special = false;      // control token: never recognised in text of a user
  bool normalized = false;   // looked for in the text after normalization, not before
  bool single_word = false;  // not found inside a word
  bool lstrip = false;       // takes the blanks before it,
  bool rstrip = false;       // or behind it
};

// The part of a text that an added token stands for, found by its content.
struct AddedTokenPlace {
  size_t begin = 0;
  size_t end = 0;
};
// Of `token`, whose content begins at `at`: with the blanks that it takes, but nothing before
// `from`. Nothing: a word goes on before or behind it, and it is none of its own.
// REQUIRES: `text` is valid UTF-8
std::optional<AddedTokenPlace> PlaceOf(const AddedToken& token, std::string_view text, size_t at,
                                       size_t from);

// Finds added tokens in text. Immutable.  Thread: any.
class AddedTokenMatcher {
 public:
  // REQUIRES: no two tokens have the same content
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  AddedTokenMatcher(AddedTokenMatcher&&) =
      default;  // nodes_ points into tokens_: moved, never copied
  AddedTokenMatcher& operator=(AddedTokenMatcher&&) = default;

  // The tokens that `text` begins with, shortest first; valid as long as the matcher. Usually none.
  absl::InlinedVector<const AddedToken*, 2> At(std::string_view text) const;

  // Offset of the first byte at or after `begin` that some token begins with; text.size() when
  // none.
  size_t SkipTo(std::string_view text, size_t begin) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Node {
    const AddedToken* token = nullptr;  // ends here
  };
  static uint64_t Edge(uint32_t node, char byte) {
    return static_cast<uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
  }

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;  // [0] is the root
  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  std::array<bool, 256> first_bytes_{};
  std::optional<char> first_byte_;  // of all tokens, where it is the same
};

}  // namespace tutti::text
