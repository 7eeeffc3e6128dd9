// Debian's abseil is built with its own string_view, which does not convert from std's by itself.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace tutti::text {

// A conversion for absl::StrCat and its kin.
inline absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace tutti::text
