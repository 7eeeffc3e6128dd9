// The variables of one rendering: scopes inside each other, over the caller's variables and the
// globals of Jinja.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace tutti::text::jinja {

// Names point into the template, which outlives this.
struct Scope {
  std::vector<std::pair<std::string_view, Value>> variables;
  Scope* parent = nullptr;
  bool is_kept = false;  // a macro that was defined in it looks its variables up later

  // Null when this one has no such name.
  Value* Find(std::string_view name);
};

class Scopes {
 public:
  explicit Scopes(std::vector<std::pair<std::string, Value>> variables);

  // Undefined when there is no such name.
  Value Lookup(std::string_view name) const;
  // In the innermost scope.
  void Assign(std::string_view name, Value value);

  Scope* innermost() const { return innermost_; }
  Scope* outermost() const { return stack_[0].get(); }
  // The innermost scope, with those around it, stays as long as this.
  Scope* Keep();

  // A new innermost scope, as long as it lives.
  class Inner {
   public:
    // `parent` null: inside the innermost one.
    explicit Inner(Scopes* scopes, Scope* parent = nullptr) : scopes_(scopes) {
      outer_ = scopes->Push(parent);
    }
    ~Inner() { scopes_->Pop(outer_); }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Scopes* const scopes_;
    Scope* outer_ = nullptr;
  };

 private:
  // The scope that was the innermost.
  Scope* Push(Scope* parent);
  void Pop(Scope* outer);

  const std::vector<std::pair<std::string, Value>> variables_;
  std::vector<std::unique_ptr<Scope>> stack_;  // in the order they were made
  std::vector<std::unique_ptr<Scope>> kept_;
  Scope* innermost_ = nullptr;
};

}  // namespace tutti::text::jinja
