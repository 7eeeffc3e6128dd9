// A vocabulary as a tree of its tokens' bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "grammar/byte_family.h"

namespace tutti::grammar {

// What a special token of this text is in the tree. No text in UTF-8 has a byte 0xFF, so what is
// written out in ordinary tokens never stands for it.
inline std::string SpecialTokenBytes(std::string_view text) {
  return '\xFF' + std::string(text) + '\xFF';
}

// Made once for a model. Immutable.  Thread: any.
class TokenTrie {
 public:
  // They are in the order of a walk that goes down first: a node is followed
  // by those below it, and they by its next sibling.
  struct Node {
    uint32_t behind = 0;     // the first node that is not below this one
    uint32_t ids_begin = 0;  // of those that end here; they end where those of the next node begin
    uint16_t depth = 0;      // bytes, from 1
    uint8_t byte = 0;
    ByteFamily below = ByteFamily::kOthers;  // of all bytes below it
    uint8_t height = 0;                      // bytes of the longest way below it, at most 255
  };
  struct Part {
    std::vector<Node> nodes;   // behind the last one, one that has only ids_begin
    std::vector<TokenId> ids;  // tokens that end at a node, several of the same bytes

    uint32_t size() const { return static_cast<uint32_t>(nodes.size()) - 1; }
  };

  // `bytes` of each token, by id; empty for those that stand for no text (unused ids) and are never
  // allowed. `ends`: the ids that end an answer, allowed where it may end; what bytes they have is
  // not looked at. `size`: ids that the model computes, at least as many. `special`: ids of special
  // tokens, allowed only where a grammar asks for one of their text (SpecialTokenBytes).
  // Errors: InvalidArgument for an id of `ends` or `special` beyond what is there, or fewer ids
  // than tokens.
  static absl::StatusOr<TokenTrie> Create(std::span<const std::string_view> bytes,
                                          std::span<const TokenId> ends, int64_t size,
                                          std::span<const TokenId> special = {});

  int64_t size() const { return size_; }
  // Words of a mask: bit i % 32 of word i / 32 says whether id i is allowed.
  size_t words() const { return static_cast<size_t>((size_ + 31) / 32); }
  // As in the tree; empty for those that are never allowed and for ends.
  std::string_view Bytes(TokenId id) const;
  bool IsEnd(TokenId id) const;
  const std::vector<TokenId>& ends() const { return ends_; }

  // Tokens of whole characters that are themselves in a string of JSON: no quote, no backslash, no
  // control character.
  const Part& plain() const { return plain_; }
  const Part& others() const { return others_; }
  // The mask of plain tokens of at most `characters`.  REQUIRES: at least 1
  const std::vector<uint32_t>& PlainUpTo(size_t characters) const {
    return plain_masks_[std::min(characters, plain_masks_.size()) - 1];
  }
  // Characters of the longest plain token.
  size_t plain_characters_max() const { return plain_masks_.size(); }

 private:
  TokenTrie() = default;

  int64_t size_ = 0;
  std::vector<char> arena_;
  std::vector<uint32_t> offsets_;  // [tokens + 1]
  std::vector<TokenId> ends_;      // ascending
  Part plain_;
  Part others_;
  std::vector<std::vector<uint32_t>> plain_masks_;
};

}  // namespace tutti::grammar
