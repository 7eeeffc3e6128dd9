// Values that are not data: what can be called, and what remembers how far it was read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

namespace tutti::text::jinja {

class Work;
struct Builtin;
struct CallArguments;

class Object : public std::enable_shared_from_this<Object> {
 public:
  enum Kind {
    kMethod,     // BoundMethod
    kFunction,   // FunctionObject
    kGenerator,  // Generator
    kLoop,       // LoopObject, of evaluator.h
    kMacro,      // MacroObject, of evaluator.h
    kBlocks,     // `self`
    kOther,
  };

  explicit Object(Kind kind) : kind_(kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  Kind kind() const { return kind_; }
  virtual std::string_view TypeName() const = 0;
  virtual bool IsCallable() const { return false; }
  // value.name: nothing when there is none of that name.
  virtual absl::StatusOr<std::optional<Value>> Attribute(std::string_view name, Work* work);
  // value(...). Those of kinds kLoop, kMacro and kBlocks are called by the evaluator.
  virtual absl::StatusOr<Value> Call(const CallArguments& arguments, Work* work);

  int depth() const { return depth_; }
  int64_t weight() const { return weight_; }

 protected:
  // Counts `member`, which the object holds. Errors: as Value::MakeList.
  absl::Status Hold(const Value& member);

 private:
  const Kind kind_;
  int depth_ = 1;
  int64_t weight_ = 1;
};

// x.strip without a call.
class BoundMethod final : public Object {
 public:
  static absl::StatusOr<Value> Make(Value self, const Builtin* method);
  std::string_view TypeName() const override { return "builtin_function_or_method"; }
  bool IsCallable() const override { return true; }
  absl::StatusOr<Value> Call(const CallArguments& arguments, Work* work) override;

 private:
  BoundMethod(Value self, const Builtin* method)
      : Object(kMethod), self_(std::move(self)), method_(method) {}
  const Value self_;
  const Builtin* const method_;
};

// A global such as range.
class FunctionObject final : public Object {
 public:
  explicit FunctionObject(const Builtin* function) : Object(kFunction), function_(function) {}
  const Builtin& function() const { return *function_; }
  std::string_view TypeName() const override { return "function"; }
  bool IsCallable() const override { return true; }
  absl::StatusOr<std::optional<Value>> Attribute(std::string_view name, Work* work) override;
  absl::StatusOr<Value> Call(const CallArguments& arguments, Work* work) override;

 private:
  const Builtin* const function_;
};

// The result of map, select and others: read once, true even when empty, without a length. The
// items are there from the beginning; the error of the one that could not be made comes in its
// turn.
class Generator final : public Object {
 public:
  static absl::StatusOr<Value> Make(std::vector<Value> items, absl::Status end = absl::OkStatus());
  std::string_view TypeName() const override { return "generator"; }
  // The next item; nothing at the end.
  absl::StatusOr<std::optional<Value>> Next();

 private:
  Generator(std::vector<Value> items, absl::Status end)
      : Object(kGenerator), items_(std::move(items)), end_(std::move(end)) {}
  const std::vector<Value> items_;
  const absl::Status end_;
  size_t next_ = 0;
};

// cycler(a, b), with next(), reset() and current.
class Cycler final : public Object {
 public:
  static absl::StatusOr<Value> Make(std::vector<Value> items);
  std::string_view TypeName() const override { return "Cycler"; }
  absl::StatusOr<std::optional<Value>> Attribute(std::string_view name, Work* work) override;
  const Value& current() const { return items_[at_]; }
  void Advance() { at_ = (at_ + 1) % items_.size(); }
  void Reset() { at_ = 0; }

 private:
  explicit Cycler(std::vector<Value> items) : Object(kOther), items_(std::move(items)) {}
  const std::vector<Value> items_;
  size_t at_ = 0;
};

// joiner(sep): nothing when called first, then the separator.
class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : Object(kOther), separator_(std::move(separator)) {}
  std::string_view TypeName() const override { return "Joiner"; }
  bool IsCallable() const override { return true; }
  absl::StatusOr<Value> Call(const CallArguments& arguments, Work* work) override;

 private:
  const Value separator_;
  bool used_ = false;
};

}  // namespace tutti::text::jinja
