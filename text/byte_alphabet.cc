#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/unicode.h"

namespace tutti::text {
namespace {

// Bytes that are printable in Latin-1 stand for themselves; the other 68 follow from U+0100 in
// order.
constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kShifted = 68;
constexpr char32_t kShiftedBegin = 0x100;

struct Tables {
  std::array<char32_t, 256> character_of_byte{};
  std::array<int16_t, kShiftedBegin + kShifted> byte_of_character{};
};

constexpr Tables MakeTables() {
  Tables tables;
  for (auto& byte : tables.byte_of_character) byte = -1;
  char32_t next = kShiftedBegin;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
    tables.character_of_byte[byte] = character;
    tables.byte_of_character[character] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

std::optional<std::string> BytesFromAlphabet(std::string_view spelled) {
  std::string bytes;
  bytes.reserve(spelled.size());
  while (!spelled.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(spelled);
    if (unit.kind != Utf8Unit::kCharacter) return std::nullopt;
    if (unit.code_point >= kTables.byte_of_character.size()) return std::nullopt;
    const int16_t byte = kTables.byte_of_character[unit.code_point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    spelled.remove_prefix(unit.length);
  }
  return bytes;
}

std::string AlphabetFromBytes(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) {
    AppendUtf8(kTables.character_of_byte[static_cast<unsigned char>(byte)], &spelled);
  }
  return spelled;
}

std::optional<char> FallbackByte(std::string_view spelled) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (spelled.size() != 6 || !spelled.starts_with("<0x") || spelled[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(spelled[3]), low = kDigits.find(spelled[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

}  // namespace tutti::text
