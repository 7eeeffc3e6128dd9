#include "gateway/parse/value_text.h"

#include <string>

#include "gateway/parse/json_scanner.h"

namespace tutti::gateway {

bool IsNestedJson(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::At at = scanner.Push(text[i]);
    if (at == JsonScanner::At::kWrong) return false;
    if (at == JsonScanner::At::kEnd) return i + 1 == text.size();
  }
  return false;
}

bool IsJsonNumber(std::string_view text) {
  if (text.empty() || text.find_first_not_of("+-.0123456789eE") != std::string_view::npos) {
    return false;
  }
  return IsNestedJson("[" + std::string(text) + "]");
}

}  // namespace tutti::gateway
