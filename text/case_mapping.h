// Upper, lower and title case, and kinds of characters, as Python's str has them.  Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::text {

// One character as it is in upper or title case: often several (\u00DF becomes SS).
void AppendUpper(char32_t c, std::string* out);
void AppendTitle(char32_t c, std::string* out);
// text[at] in lower case: a sigma at the end of a word has a form of its own.
void AppendLower(std::u32string_view text, size_t at, std::string* out);

bool IsUpper(char32_t c);
bool IsLower(char32_t c);
// Upper, lower or title case.
bool IsCased(char32_t c);
// Stands inside words without a case of its own.
bool IsCaseIgnorable(char32_t c);
// str.isalpha, str.isdecimal and str.isdigit, of one character.
bool IsAlphabetic(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);

}  // namespace tutti::text
