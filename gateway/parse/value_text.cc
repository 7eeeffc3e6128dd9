#include "gateway/parse/value_text.h"

#include "absl/strings/ascii.h"
#include "gateway/parse/json_scanner.h"

namespace tutti::gateway {
namespace {

std::string_view Trimmed(std::string_view text) {
  text = WithoutFirstBlanks(text);
  while (!text.empty() && IsJsonBlank(text.back())) text.remove_suffix(1);
  return text;
}

// Whether the text is one list or object.
bool IsNested(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::At at = scanner.Push(text[i]);
    if (at == JsonScanner::At::kWrong) return false;
    if (at == JsonScanner::At::kEnd) return i + 1 == text.size();
  }
  return false;
}

}  // namespace

bool IsJsonNumber(std::string_view text) {
  if (text.empty() || text.find_first_not_of("+-.0123456789eE") != std::string_view::npos) {
    return false;
  }
  return IsNested("[" + std::string(text) + "]");
}

std::string JsonOfValue(std::string_view text, ValueType type) {
  const std::string_view value = Trimmed(text);
  const std::string lower = absl::AsciiStrToLower(std::string(value.substr(0, 8)));
  if (type != ValueType::kText) {
    if (lower == "null" || lower == "none") return "null";
    if (type == ValueType::kBoolean && (lower == "true" || lower == "false")) return lower;
    if (type == ValueType::kNumber && IsJsonNumber(value)) return std::string(value);
    if (type == ValueType::kNested && IsNested(value)) return std::string(value);
  }
  std::string json = "\"";
  AppendEscaped(text, &json);
  return json + "\"";
}

}  // namespace tutti::gateway
