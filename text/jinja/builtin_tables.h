// The tables of filters and methods, each in the file of its kind.
#pragma once

#include <vector>

#include "text/jinja/builtins.h"

namespace tutti::text::jinja {

const std::vector<Builtin>& TextFilters();
const std::vector<Builtin>& HtmlFilters();
const std::vector<Builtin>& ListFilters();
const std::vector<Builtin>& SelectFilters();
const std::vector<Builtin>& SortFilters();
const std::vector<Builtin>& ValueFilters();

}  // namespace tutti::text::jinja
