#include "gateway/field_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/check.h"

namespace tutti::gateway {
namespace {

thread_local FieldLog* living_log = nullptr;

std::string WithoutIndices(const std::string& path) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    const bool is_digit = absl::ascii_isdigit(static_cast<unsigned char>(path[i]));
    if (is_digit && !out.empty() && out.back() == '[') continue;
    out.push_back(path[i]);
  }
  return out;
}

std::string FormOf(const Json& value) {
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  if (value.is_object()) return "object";
  if (value.is_array()) return value.empty() ? "array" : "array of " + FormOf(value[0]);
  return "null";
}

}  // namespace

FieldLog::FieldLog() {
  CHECK(living_log == nullptr);
  living_log = this;
}

FieldLog::~FieldLog() { living_log = nullptr; }

void FieldLog::Tell(const std::string& path, FieldUse use, const Json* value) {
  if (living_log == nullptr) return;
  if (value != nullptr) use.forms.insert(FormOf(*value));
  const auto [place, is_new] = living_log->uses_.try_emplace(WithoutIndices(path), use);
  FieldUse& known = place->second;
  if (is_new) return;
  use.forms.insert(known.forms.begin(), known.forms.end());
  using Kind = FieldUse::Kind;
  const auto [less, more] = std::minmax(known.kind, use.kind);
  if (less == Kind::kAny && more == Kind::kTexts) {
    // A reader that looked first takes less than every text.
    known.kind = Kind::kAny;
  } else if (use.kind > known.kind) {
    known = use;
  }
  known.forms = std::move(use.forms);
}

void FieldLog::TellClosed(const std::string& path) {
  if (living_log != nullptr) living_log->closed_.insert(WithoutIndices(path));
}

}  // namespace tutti::gateway
