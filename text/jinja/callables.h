// The objects that only the evaluator can call: macros, loops and blocks.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"
#include "text/jinja/object.h"
#include "text/jinja/scopes.h"

namespace tutti::text::jinja {

class MacroObject final : public Object {
 public:
  // `closure`: the scope it was defined in, which stays.
  MacroObject(const Macro* macro, Scope* closure)
      : Object(kMacro), macro_(macro), closure_(closure) {}
  const Macro& macro() const { return *macro_; }
  Scope* closure() const { return closure_; }
  std::string_view TypeName() const override { return "Macro"; }
  bool IsCallable() const override { return true; }
  absl::StatusOr<std::optional<Value>> Attribute(std::string_view name, Work* work) override;

 private:
  const Macro* const macro_;
  Scope* const closure_;
};

// `loop` inside a for: reads the items as they are needed.
class LoopObject final : public Object {
 public:
  using NextItem = std::function<absl::StatusOr<std::optional<Value>>()>;

  // `next` gives one item after another, nothing at the end; `length`: how many, where that is
  // known.
  LoopObject(const Stmt* stmt, Scope* outside, NextItem next, std::optional<int64_t> length,
             int depth0)
      : Object(kLoop),
        stmt_(stmt),
        outside_(outside),
        next_(std::move(next)),
        length_(length),
        depth0_(depth0) {}

  // Moves to the next item; false at the end.
  absl::StatusOr<bool> Advance();
  const Value& current() const { return current_; }
  // Nothing of the template's scopes is used from now on.
  void End() { has_ended_ = true; }
  bool has_ended() const { return has_ended_; }

  const Stmt& stmt() const { return *stmt_; }
  Scope* outside() const { return outside_; }
  int depth0() const { return depth0_; }

  std::string_view TypeName() const override { return "LoopContext"; }
  bool IsCallable() const override { return true; }
  absl::StatusOr<std::optional<Value>> Attribute(std::string_view name, Work* work) override;

  absl::StatusOr<Value> Cycle(const std::vector<Value>& values) const;
  Value Changed(const Value& values);

 private:
  absl::StatusOr<std::optional<Value>> ReadNext();
  // The item after the current one, which stays the next.
  absl::StatusOr<std::optional<Value>> Peek();
  absl::StatusOr<int64_t> Length();
  absl::StatusOr<Value> Method(std::string_view name);

  const Stmt* const stmt_;
  Scope* const outside_;
  const NextItem next_;
  std::optional<int64_t> length_;
  const int depth0_;
  bool has_ended_ = false;
  int64_t index0_ = -1;
  Value before_, current_;
  Value last_changed_;
  bool has_changed_ = false;
  std::vector<Value> ahead_;  // read, but not visited; the next one last
};

// `self`, whose attributes are the blocks.
class BlocksObject final : public Object {
 public:
  explicit BlocksObject(const Stmt* called = nullptr) : Object(kBlocks), called_(called) {}
  // The block that a call renders; null: `self` itself.
  const Stmt* called() const { return called_; }
  std::string_view TypeName() const override { return "TemplateReference"; }
  bool IsCallable() const override { return called_ != nullptr; }

 private:
  const Stmt* const called_;
};

}  // namespace tutti::text::jinja
