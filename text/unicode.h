// UTF-8, NFC and the few facts about characters that tokenizers and templates need.  Thread: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::text {

// The unit at the beginning of some bytes. Ill-formed bytes are cut as Unicode recommends and
// Python and Rust do: the longest prefix that could begin a character ("maximal subpart") is one
// unit.
struct Utf8Unit {
  enum Kind { kCharacter, kInvalid, kIncomplete };
  Kind kind = kInvalid;
  int length = 0;           // bytes of the unit, 1 to 4
  char32_t code_point = 0;  // when kCharacter
};

// The first unit of `bytes`. kIncomplete: `bytes` ends inside what may become a character.
// REQUIRES: !bytes.empty()
Utf8Unit FirstUtf8Unit(std::string_view bytes);

// Offset of the first byte that is not part of well-formed UTF-8; nothing when all of it is.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

void AppendUtf8(char32_t code_point, std::string* out);

// U+FFFD in UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Unicode normalization form C of Unicode 9.0, which the tokenizers library has: 109 marks that
// came later are ordinary characters to it. Linear in the text but for sorting runs of combining
// marks (n log n). REQUIRES: `text` is valid UTF-8
std::string NormalizeNfc(std::string_view text);

// str.isspace of Python, which is also \s of its regular expressions.
bool IsPythonSpace(char32_t code_point);
// White_Space of Unicode, which is \s of most other regular expressions.
bool IsBlank(char32_t code_point);
// Stands inside words: \w of Unicode's regular expressions.
bool IsWordCharacter(char32_t code_point);
// str.isprintable of Python: repr() escapes the others.
bool IsPrintable(char32_t code_point);

}  // namespace tutti::text
