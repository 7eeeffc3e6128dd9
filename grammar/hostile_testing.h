// Sources made to take as much time or memory as they can, for tests and measurements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace tutti::grammar {

struct HostileSource {
  std::string name;
  GrammarSource source;
};

// Each takes some path of making a grammar to its end: few of them are served.
std::vector<HostileSource> HostileSources();

// `open` so many times, `inner`, `close` so many times.
std::string Nested(int levels, std::string_view open, std::string_view inner,
                   std::string_view close);
// "properties" with so many of this schema.
std::string Properties(int count, std::string_view schema);

}  // namespace tutti::grammar
