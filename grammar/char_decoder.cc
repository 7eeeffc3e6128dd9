#include "grammar/char_decoder.h"

#include <algorithm>

#include "grammar/text_cursor.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// A state: what is under way, how many bytes or digits are still to come, and the value so far.
enum Stage : uint32_t {
  kBetween = 0,
  kUtf8Of2,
  kUtf8Of3,
  kUtf8Of4,
  kBackslash,     // an escape begins
  kHex,           // the digits of \u
  kLowBackslash,  // the second half of a character must follow: its \,
  kLowU,          // its u,
  kLowHex,        // its digits
};

struct Under {
  Stage stage = kBetween;
  uint32_t left = 0;
  uint32_t value = 0;
  uint32_t high = 0;  // of the second half's: ten bits of the first
};

// value: 16 bits, or 21 in UTF-8, where there is no first half.
DecoderState Pack(const Under& u) {
  const bool low = u.stage >= kLowBackslash;
  return u.stage << 28 | u.left << 25 | (low ? u.high << 15 | u.value : u.value);
}

Under Unpack(DecoderState state) {
  Under u{static_cast<Stage>(state >> 28), state >> 25 & 7, state & 0x1FFFFFF, 0};
  if (u.stage >= kLowBackslash) {
    u.high = u.value >> 15;
    u.value &= 0x7FFF;
  }
  return u;
}

uint32_t LeastOf(Stage stage) {
  return stage == kUtf8Of2 ? 0x80 : stage == kUtf8Of3 ? 0x800 : 0x10000;
}

PossibleCharacters RangesOf(const std::array<CharRange, 3>& candidates) {
  PossibleCharacters possible;
  for (const CharRange& range : candidates) {
    if (range.first <= range.last) possible.ranges[static_cast<size_t>(possible.count++)] = range;
  }
  return possible;
}

// Of [first, last], the characters, and those whose first half lies there.
PossibleCharacters OfHexRange(uint32_t first, uint32_t last) {
  const uint32_t high_first = std::max(first, kSurrogateBegin);
  const uint32_t high_last = std::min(last, uint32_t{0xDBFF});
  CharRange pairs = {1, 0};
  if (high_first <= high_last) {
    pairs = {0x10000 + ((high_first & 0x3FF) << 10), 0x103FF + ((high_last & 0x3FF) << 10)};
  }
  return RangesOf({CharRange{first, std::min(last, kSurrogateBegin - 1)},
                   CharRange{std::max(first, kSurrogateEnd), last}, pairs});
}

PossibleCharacters PossibleOf(const Under& u) {
  switch (u.stage) {
    case kUtf8Of2:
    case kUtf8Of3:
    case kUtf8Of4: {
      const uint32_t shift = 6 * u.left;
      const uint32_t first = std::max(u.value << shift, LeastOf(u.stage));
      const uint32_t last = std::min((u.value << shift) + (1u << shift) - 1, kCodePointMax);
      return RangesOf({CharRange{first, std::min(last, kSurrogateBegin - 1)},
                       CharRange{std::max(first, kSurrogateEnd), last}, CharRange{1, 0}});
    }
    case kHex: {
      const uint32_t shift = 4 * u.left;
      return OfHexRange(u.value << shift, (u.value << shift) + (1u << shift) - 1);
    }
    case kLowBackslash:
    case kLowU:
    case kLowHex: {
      const uint32_t shift = 4 * u.left;
      const uint32_t first = std::max(u.value << shift, uint32_t{0xDC00});
      const uint32_t last = std::min((u.value << shift) + (1u << shift) - 1, uint32_t{0xDFFF});
      if (first > last) return {};
      const uint32_t base = 0x10000 + (u.high << 10);
      return RangesOf({CharRange{base + (first & 0x3FF), base + (last & 0x3FF)}, CharRange{1, 0},
                       CharRange{1, 0}});
    }
    case kBackslash:
    case kBetween:
      return RangesOf({CharRange{0, kCodePointMax}, CharRange{1, 0}, CharRange{1, 0}});
  }
  return {};
}

DecodedByte PartOf(const Under& u) {
  if (PossibleOf(u).count == 0) return {};
  return {DecodedByte::Kind::kPart, Pack(u), 0};
}

DecodedByte WholeCharacter(uint32_t character) {
  return {DecodedByte::Kind::kCharacter, 0, character};
}

DecodedByte BeginCharacter(TextForm form, uint8_t byte) {
  if (form == TextForm::kJsonString) {
    if (byte == '"') return {DecodedByte::Kind::kQuote, 0, 0};
    if (byte == '\\') return PartOf({kBackslash, 0, 0, 0});
    if (byte < 0x20) return {};
  }
  if (byte < 0x80) return WholeCharacter(byte);
  if (byte >= 0xC2 && byte <= 0xDF) return PartOf({kUtf8Of2, 1, byte & 0x1Fu, 0});
  if (byte >= 0xE0 && byte <= 0xEF) return PartOf({kUtf8Of3, 2, byte & 0x0Fu, 0});
  if (byte >= 0xF0 && byte <= 0xF4) return PartOf({kUtf8Of4, 3, byte & 0x07u, 0});
  return {};
}

DecodedByte Escaped(uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return WholeCharacter(byte);
    case 'b':
      return WholeCharacter('\b');
    case 'f':
      return WholeCharacter('\f');
    case 'n':
      return WholeCharacter('\n');
    case 'r':
      return WholeCharacter('\r');
    case 't':
      return WholeCharacter('\t');
    case 'u':
      return PartOf({kHex, 4, 0, 0});
    default:
      return {};
  }
}

DecodedByte HexDigitOf(Under u, uint8_t byte) {
  const int digit = TextCursor::HexDigit(static_cast<char>(byte));
  if (digit < 0) return {};
  u.value = u.value << 4 | static_cast<uint32_t>(digit);
  if (--u.left > 0) return PartOf(u);
  if (u.stage == kLowHex) {
    const PossibleCharacters possible = PossibleOf(u);
    return possible.count == 0 ? DecodedByte() : WholeCharacter(possible.ranges[0].first);
  }
  if (u.value < kSurrogateBegin || u.value >= kSurrogateEnd) return WholeCharacter(u.value);
  if (u.value >= 0xDC00) return {};
  return PartOf({kLowBackslash, 4, 0, u.value & 0x3FF});
}

}  // namespace

DecodedByte DecodeByte(TextForm form, DecoderState state, uint8_t byte) {
  Under u = Unpack(state);
  switch (u.stage) {
    case kBetween:
      return BeginCharacter(form, byte);
    case kUtf8Of2:
    case kUtf8Of3:
    case kUtf8Of4: {
      if ((byte & 0xC0) != 0x80) return {};
      u.value = u.value << 6 | (byte & 0x3Fu);
      --u.left;
      const DecodedByte part = PartOf(u);
      if (part.kind == DecodedByte::Kind::kRefused || u.left > 0) return part;
      return WholeCharacter(u.value);
    }
    case kBackslash:
      return Escaped(byte);
    case kLowBackslash:
      return byte == '\\' ? PartOf({kLowU, 4, 0, u.high}) : DecodedByte();
    case kLowU:
      return byte == 'u' ? PartOf({kLowHex, 4, 0, u.high}) : DecodedByte();
    case kHex:
    case kLowHex:
      return HexDigitOf(u, byte);
  }
  return {};
}

PossibleCharacters Possible(DecoderState state) { return PossibleOf(Unpack(state)); }

int AnyContinuations(DecoderState state) {
  const Under u = Unpack(state);
  if (u.stage != kUtf8Of2 && u.stage != kUtf8Of3 && u.stage != kUtf8Of4) return 0;
  const PossibleCharacters possible = PossibleOf(u);
  const CharRange& range = possible.ranges[0];
  const bool any = possible.count == 1 && range.last - range.first + 1 == 1u << (6 * u.left);
  return any ? static_cast<int>(u.left) : 0;
}

DecoderState AnyCharacter(int continuations) {
  const uint8_t first = continuations == 1 ? 0xC3 : continuations == 2 ? 0xE1 : 0xF1;
  return DecodeByte(TextForm::kPlain, 0, first).state;
}

absl::Status CheckUtf8(std::string_view text) {
  DecoderState state = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const DecodedByte byte = DecodeByte(TextForm::kPlain, state, static_cast<uint8_t>(text[i]));
    if (byte.kind == DecodedByte::Kind::kRefused || (byte.state != 0 && i + 1 == text.size())) {
      return absl::InvalidArgumentError(Concat("not UTF-8 at byte ", i));
    }
    state = byte.state;
  }
  return absl::OkStatus();
}

}  // namespace tutti::grammar
