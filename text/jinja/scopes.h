// The variables of one rendering: a stack of scopes over the caller's variables.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace tutti::text::jinja {

// Names point into the template, which outlives this.
class Scopes {
 public:
  using Scope = std::vector<std::pair<std::string_view, Value>>;

  explicit Scopes(std::vector<std::pair<std::string, Value>> variables)
      : variables_(std::move(variables)), scopes_(1) {}

  // Null when `scope` has no such name.
  static Value* FindIn(Scope* scope, std::string_view name);

  // Undefined when there is no such name.
  Value Lookup(std::string_view name);
  // In the innermost scope.
  void Assign(std::string_view name, Value value);

  void Push(Scope scope = {}) { scopes_.push_back(std::move(scope)); }
  void Pop() { scopes_.pop_back(); }
  Scope& innermost() { return scopes_.back(); }

  // While one lives, only the scopes pushed since, the outermost one and the caller's variables are
  // seen, as in a macro.
  class Hidden {
   public:
    explicit Hidden(Scopes* scopes)
        : scopes_(scopes), outer_(std::exchange(scopes->visible_from_, scopes->scopes_.size())) {}
    ~Hidden() { scopes_->visible_from_ = outer_; }
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;

   private:
    Scopes* const scopes_;
    const size_t outer_;
  };

 private:
  const std::vector<std::pair<std::string, Value>> variables_;
  std::vector<Scope> scopes_;  // innermost last
  size_t visible_from_ = 0;
};

}  // namespace tutti::text::jinja
