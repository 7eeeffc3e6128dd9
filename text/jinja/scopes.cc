#include "text/jinja/scopes.h"

#include "absl/strings/str_cat.h"
#include "text/absl_text.h"
#include "text/jinja/builtins.h"
#include "text/jinja/object.h"

namespace tutti::text::jinja {

Value* Scope::Find(std::string_view name) {
  for (auto& [known, value] : variables) {
    if (known == name) return &value;
  }
  return nullptr;
}

Scopes::Scopes(std::vector<std::pair<std::string, Value>> variables)
    : variables_(std::move(variables)) {
  stack_.push_back(std::make_unique<Scope>());
  innermost_ = stack_[0].get();
}

Value Scopes::Lookup(std::string_view name) const {
  for (Scope* scope = innermost_; scope != nullptr; scope = scope->parent) {
    if (const Value* found = scope->Find(name); found != nullptr) return *found;
  }
  for (const auto& [known, value] : variables_) {
    if (known == name) return value;
  }
  // A name with a point is that of a method of a global.
  const Builtin* function = name.find('.') == std::string_view::npos ? FindFunction(name) : nullptr;
  if (function != nullptr) return Value::Of(std::make_shared<FunctionObject>(function));
  return Value::Missing(absl::StrCat("'", Absl(name), "' is undefined"));
}

void Scopes::Assign(std::string_view name, Value value) {
  if (Value* found = innermost_->Find(name); found != nullptr) {
    *found = std::move(value);
  } else {
    innermost_->variables.emplace_back(name, std::move(value));
  }
}

Scope* Scopes::Keep() {
  for (Scope* scope = innermost_; scope != nullptr && !scope->is_kept; scope = scope->parent) {
    scope->is_kept = true;
  }
  return innermost_;
}

Scope* Scopes::Push(Scope* parent) {
  auto scope = std::make_unique<Scope>();
  scope->parent = parent == nullptr ? innermost_ : parent;
  Scope* const outer = innermost_;
  innermost_ = scope.get();
  stack_.push_back(std::move(scope));
  return outer;
}

void Scopes::Pop(Scope* outer) {
  if (stack_.back()->is_kept) kept_.push_back(std::move(stack_.back()));
  stack_.pop_back();
  innermost_ = outer;
}

}  // namespace tutti::text::jinja
