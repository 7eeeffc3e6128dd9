// Families of bytes of which many tokens consist, so that what leads on whatever comes of a family
// takes all tokens of it without a look.
//
// Values; pure; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "grammar/char_set.h"

namespace tutti::grammar {

// Of characters that are themselves in a string of JSON. kOthers is none.
enum class ByteFamily : uint8_t {
  kOthers,
  kDigits,
  kLowerCase,
  kLetters,
  kLettersAndDigits,
  kGraphic,    // of ASCII, but for quote and backslash
  kPrintable,  // kGraphic and the space
  kHigh,       // characters of several bytes
  kText,       // kPrintable and kHigh
};

// Kinds of bytes, a bit each.
enum ByteKind : uint8_t {
  kDigitByte = 1,
  kLowerByte = 2,
  kUpperByte = 4,
  kGraphicByte = 8,
  kSpaceByte = 16,
  kHighByte = 32,
  kOtherByte = 64,
};

constexpr uint8_t KindOf(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return kDigitByte;
  if (byte >= 'a' && byte <= 'z') return kLowerByte;
  if (byte >= 'A' && byte <= 'Z') return kUpperByte;
  if (byte == ' ') return kSpaceByte;
  if (byte >= 0x80) return kHighByte;
  return byte < 0x20 || byte == 0x7F || byte == '"' || byte == '\\' ? kOtherByte : kGraphicByte;
}

// The smallest family that has all bytes of these kinds.
constexpr ByteFamily FamilyOf(uint8_t kinds) {
  if (kinds == 0 || (kinds & kOtherByte) != 0) return ByteFamily::kOthers;
  if (kinds == kHighByte) return ByteFamily::kHigh;
  if ((kinds & kHighByte) != 0) return ByteFamily::kText;
  if ((kinds & kSpaceByte) != 0) return ByteFamily::kPrintable;
  if ((kinds & kGraphicByte) != 0) return ByteFamily::kGraphic;
  if (kinds == kDigitByte) return ByteFamily::kDigits;
  if (kinds == kLowerByte) return ByteFamily::kLowerCase;
  return (kinds & kDigitByte) != 0 ? ByteFamily::kLettersAndDigits : ByteFamily::kLetters;
}

// Its characters.
inline std::span<const CharRange> CharactersOf(ByteFamily family) {
  static constexpr CharRange kDigits[] = {{'0', '9'}};
  static constexpr CharRange kLetters[] = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}};
  static constexpr CharRange kAll[] = {{0x80, kCodePointMax}, {0x21, 0x21}, {0x23, 0x5B},
                                       {0x5D, 0x7E},          {0x20, 0x20}, {0x80, kCodePointMax}};
  const std::span<const CharRange> letters(kLetters);
  const std::span<const CharRange> all(kAll);
  switch (family) {
    case ByteFamily::kOthers:
      break;
    case ByteFamily::kDigits:
      return kDigits;
    case ByteFamily::kLowerCase:
      return letters.first(1);
    case ByteFamily::kLetters:
      return letters.first(2);
    case ByteFamily::kLettersAndDigits:
      return letters;
    case ByteFamily::kGraphic:
      return all.subspan(1, 3);
    case ByteFamily::kPrintable:
      return all.subspan(1, 4);
    case ByteFamily::kHigh:
      return all.first(1);
    case ByteFamily::kText:
      return all.subspan(1, 5);
  }
  return {};
}

}  // namespace tutti::grammar
