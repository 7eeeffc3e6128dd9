// Support for tests: sentencepiece models small enough to reason about, as their files.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/ids.h"

namespace tutti::text {

// Writes the wire format of protocol buffers.
class WireWriter {
 public:
  WireWriter& Varint(uint64_t number, uint64_t value) {
    Raw(number << 3);
    Raw(value);
    return *this;
  }
  WireWriter& Float(uint64_t number, float value) {
    Raw(number << 3 | 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i)));
    return *this;
  }
  WireWriter& Bytes(uint64_t number, std::string_view bytes) {
    Raw(number << 3 | 2);
    Raw(bytes.size());
    bytes_.append(bytes);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Raw(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

// A precompiled_charsmap: its trie laid out with 256 units for the children of every node.
inline std::string TinyCharacterMap(
    const std::vector<std::pair<std::string, std::string>>& replacements) {
  std::vector<uint32_t> units(256, 0);
  std::map<std::string, uint32_t> children = {{"", 0}};  // node -> where its children are
  std::string targets;
  for (const auto& [key, target] : replacements) {
    uint32_t at = 0;
    for (size_t i = 0; i < key.size(); ++i) {
      const auto byte = static_cast<unsigned char>(key[i]);
      at = children[key.substr(0, i)] ^ byte;
      const auto [node, added] =
          children.emplace(key.substr(0, i + 1), static_cast<uint32_t>(units.size()));
      if (!added) continue;
      units.resize(units.size() + 256, 0);
      units[at] = byte | (node->second ^ at) << 10;
    }
    units[at] |= 1U << 8;
    units[children[key]] = static_cast<uint32_t>(targets.size()) | 1U << 31;
    targets += target + '\0';
  }
  std::string table;
  const auto append = [&](uint32_t unit) {
    for (int i = 0; i < 4; ++i) table.push_back(static_cast<char>(unit >> (8 * i)));
  };
  append(static_cast<uint32_t>(units.size() * 4));
  for (const uint32_t unit : units) append(unit);
  return table + targets;
}

struct TinyPiece {
  std::string text;
  float score = 0;
  uint64_t type = 1;  // normal
};

// A ModelProto. Its fields are public, so that a test can change one.
struct TinySentencepiece {
  std::vector<TinyPiece> pieces;
  uint64_t model_type = 2;  // BPE
  bool byte_fallback = true;
  bool suffix = false;
  bool dummy_prefix = true;
  bool remove_extra_spaces = false;
  bool escape_spaces = true;
  std::string charsmap;

  std::string Bytes() const {
    WireWriter model;
    for (const TinyPiece& piece : pieces) {
      WireWriter out;
      out.Bytes(1, piece.text).Float(2, piece.score);
      if (piece.type != 1) out.Varint(3, piece.type);
      model.Bytes(1, out.bytes());
    }
    WireWriter trainer, normalizer;
    trainer.Varint(3, model_type).Varint(24, suffix).Varint(35, byte_fallback);
    normalizer.Bytes(1, "identity").Bytes(2, charsmap).Varint(3, dummy_prefix);
    normalizer.Varint(4, remove_extra_spaces).Varint(5, escape_spaces);
    return model.Bytes(2, trainer.bytes()).Bytes(3, normalizer.bytes()).bytes();
  }
};

// Ids: 0 <unk>, 1 <s>, 2 </s>, byte b is 3 + b; then those of `words`, each scored below the one
// before it.
inline constexpr int kTinyFirstWord = 259;

inline TinySentencepiece MakeTinySentencepiece(const std::vector<std::string>& words) {
  TinySentencepiece model;
  model.pieces = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}};
  for (int byte = 0; byte < 256; ++byte) {
    model.pieces.push_back({absl::StrFormat("<0x%02X>", byte), 0, 6});
  }
  float score = 0;
  for (const std::string& word : words) model.pieces.push_back({word, score--});
  return model;
}

// A small vocabulary for tests, and its ids.
inline std::vector<std::string> TinyWords() {
  return {"\u2581", "a", "b", "c", "n", "\u2581a", "ab", "\u2581ab", "an", "\u00e9"};
}
inline constexpr TokenId kSpace = kTinyFirstWord, kA = kSpace + 1, kB = kSpace + 2, kC = kSpace + 3,
                         kN = kSpace + 4, kSpaceA = kSpace + 5, kAb = kSpace + 6,
                         kSpaceAb = kSpace + 7, kAn = kSpace + 8, kE = kSpace + 9;

}  // namespace tutti::text
