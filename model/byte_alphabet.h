// The alphabet in which byte-level vocabularies spell bytes (GPT-2's): each byte is one visible
// character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti {

// "Ġthe" -> " the". Nothing when a character stands for no byte or the text is not UTF-8.
std::optional<std::string> BytesFromAlphabet(std::string_view spelled);

// " the" -> "Ġthe".
std::string AlphabetFromBytes(std::string_view bytes);

}  // namespace tutti
