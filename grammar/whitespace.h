// Blanks between the parts of a JSON text.
#pragma once

#include <cstdint>

namespace tutti::grammar {

// None, or at most kWhitespaceBytesMax in a place: where there is no bound, small models write
// blanks for ever.
enum class Whitespace : uint8_t { kCompact, kBounded };

}  // namespace tutti::grammar
