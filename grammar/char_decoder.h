// Characters from their bytes, one byte after the other: as UTF-8, or as the inside of a string of
// JSON, where escapes stand for characters too.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "grammar/char_set.h"

namespace tutti::grammar {

enum class TextForm : uint8_t { kPlain, kJsonString };

// What is known of the character under way; 0: none is.
using DecoderState = uint32_t;

struct DecodedByte {
  enum class Kind : uint8_t { kRefused, kPart, kCharacter, kQuote };
  Kind kind = Kind::kRefused;
  DecoderState state = 0;  // kPart
  uint32_t character = 0;  // kCharacter
};
// A byte that no character goes on with is refused, and so are halves of characters alone. kQuote:
// the end of a JSON string, between characters only.
DecodedByte DecodeByte(TextForm form, DecoderState state, uint8_t byte);

// The characters that a text in `state`, which is not 0, may be about to complete.
struct PossibleCharacters {
  std::array<CharRange, 3> ranges;
  int count = 0;
};
PossibleCharacters Possible(DecoderState state);
// Of a character in UTF-8 under way that any bytes 10xxxxxx complete, how many of them; else 0.
int AnyContinuations(DecoderState state);
// A state of which that is so for 1, 2 or 3 of them.
DecoderState AnyCharacter(int continuations);

// InvalidArgument with the byte for what is no UTF-8.
absl::Status CheckUtf8(std::string_view text);

}  // namespace tutti::grammar
