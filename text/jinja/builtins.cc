#include "text/jinja/builtins.h"

#include <algorithm>

namespace tutti::text::jinja {

const Builtin* FindIn(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace tutti::text::jinja
