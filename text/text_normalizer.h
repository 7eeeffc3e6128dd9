// The changes that a tokenizer makes to text before it looks for tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "text/character_map.h"

namespace tutti::text {

// Text is normalized in stretches, each between two added tokens. Immutable.  Thread: any.
class TextNormalizer {
 public:
  // The stretches that get a space in front, so that a word has the same tokens wherever it stands.
  enum class SpacePrefix { kNone, kFirstStretch, kEveryStretch };

  struct Options {
    bool nfc = false;
    std::shared_ptr<const CharacterMap> characters;  // null: all stay as they are
    // sentencepiece writes a space as U+2581 in its vocabulary, so that both are one to it. Here
    // the vocabulary is read with spaces for it, and so is text.
    bool mark_is_space = false;
    SpacePrefix prefix = SpacePrefix::kNone;
    bool prefix_unless_space = false;  // a stretch that begins with a space gets no further one
    bool prefix_tokens = false;        // added tokens are looked for with the space in front
    bool collapse_spaces = false;      // no space at the ends, never two in a row
  };

  TextNormalizer() = default;
  explicit TextNormalizer(Options options) : options_(std::move(options)) {}

  // `first`: no added token stands before the stretch.  REQUIRES: valid UTF-8
  std::string Normalize(std::string_view stretch, bool first) const;

  // The spelling that an added token has in normalized text.
  std::string NormalizeToken(std::string_view content) const;

  // Whether Normalize returns some other text than it is given, for some text.
  bool ChangesText() const;
  // Whether text may come back with a space in front of it.
  bool AddsSpace() const { return options_.prefix != SpacePrefix::kNone; }

 private:
  std::string NormalizeSpaces(std::string_view stretch, bool first) const;

  Options options_;
};

}  // namespace tutti::text
