// The normalization table of a sentencepiece model: which characters become which.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti::text {

// normalizer_spec.precompiled_charsmap: the length of a double array in 4 bytes, little endian; the
// array, 4 bytes a unit, in the layout of darts-clone; then the replacements, each with a zero byte
// behind it. The array finds the longest beginning of the text that has a replacement and gives the
// replacement's offset. Every index is checked: the table comes from a file. Immutable.
// Thread: any.
class CharacterMap {
 public:
  // Errors: InvalidArgument when the lengths contradict each other, or a replacement is not valid
  // UTF-8 or has more than kCharacterMapTargetBytesMax bytes.
  static absl::StatusOr<CharacterMap> Parse(std::string_view table);

  // `text` with every such beginning, from left to right, replaced.  REQUIRES: valid UTF-8
  std::string Apply(std::string_view text) const;

 private:
  struct Match {
    size_t length = 0;  // 0: nothing matches
    std::string_view target;
  };
  CharacterMap() = default;
  // The longest match that ends at the end of a character.
  Match Longest(std::string_view text) const;
  std::string_view Target(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string targets_;
};

}  // namespace tutti::text
