// The name that a mistyped one most likely stands for.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::placement {

// The number of letters that must be put in, taken out or changed (Levenshtein's distance).
size_t EditsBetween(std::string_view a, std::string_view b);

// The name that takes the fewest edits, the first among equals; "" of none.
std::string NearestName(std::string_view typed, const std::vector<std::string>& names);

}  // namespace tutti::placement
