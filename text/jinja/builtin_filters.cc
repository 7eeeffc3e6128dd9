// Filters: the names behind `|`.
#include "text/jinja/builtin_tables.h"

namespace tutti::text::jinja {

const Builtin* FindFilter(std::string_view name) {
  for (const auto* table : {&TextFilters(), &HtmlFilters(), &ListFilters(), &SelectFilters(),
                            &SortFilters(), &ValueFilters()}) {
    if (const Builtin* found = FindIn(*table, name); found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace tutti::text::jinja
