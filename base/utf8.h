// Texts of UTF-8 by their characters.
//
// Pure; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace tutti {

// Whether a character begins with this byte; the others are 10xxxxxx.
constexpr bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// The beginning of `text`, `bytes_max` bytes at most, that cuts no character. Of bytes that are no
// UTF-8 it may be empty.
constexpr std::string_view WholeCharacters(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && !BeginsCharacter(text[end])) --end;
  return text.substr(0, end);
}

constexpr size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

}  // namespace tutti
