// How vocabularies spell bytes: the alphabet of byte-level ones (GPT-2's), in which each byte is
// one visible character, and the fallback tokens of sentencepiece.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::text {

// "Ġthe" -> " the". Nothing when a character stands for no byte or the text is not UTF-8.
std::optional<std::string> BytesFromAlphabet(std::string_view spelled);

// " the" -> "Ġthe".
std::string AlphabetFromBytes(std::string_view bytes);

// "<0x0A>" -> "\n". Nothing for all other spellings.
std::optional<char> FallbackByte(std::string_view spelled);

}  // namespace tutti::text
