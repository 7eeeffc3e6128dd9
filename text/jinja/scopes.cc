#include "text/jinja/scopes.h"

#include "absl/strings/str_cat.h"
#include "text/absl_text.h"

namespace tutti::text::jinja {

Value* Scopes::FindIn(Scope* scope, std::string_view name) {
  for (auto& [known, value] : *scope) {
    if (known == name) return &value;
  }
  return nullptr;
}

Value Scopes::Lookup(std::string_view name) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (i > 0 && i < visible_from_) continue;
    if (const Value* found = FindIn(&scopes_[i], name); found != nullptr) return *found;
  }
  for (const auto& [known, value] : variables_) {
    if (known == name) return value;
  }
  return Value::Missing(absl::StrCat("'", Absl(name), "' is undefined"));
}

void Scopes::Assign(std::string_view name, Value value) {
  if (Value* found = FindIn(&scopes_.back(), name); found != nullptr) {
    *found = std::move(value);
  } else {
    scopes_.back().emplace_back(name, std::move(value));
  }
}

}  // namespace tutti::text::jinja
