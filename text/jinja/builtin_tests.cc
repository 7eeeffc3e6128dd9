// Tests: what stands behind `is`.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/jinja/builtins.h"
#include "text/jinja/operations.h"

namespace tutti::text::jinja {
namespace {

template <bool (*test)(const Value&)>
absl::StatusOr<Value> TypeTest(const Value& self, const Call&) {
  return Value::Bool(test(self));
}

bool IsDefined(const Value& v) { return !v.IsUndefined(); }
bool IsUndefined(const Value& v) { return v.IsUndefined(); }
bool IsNone(const Value& v) { return v.IsNone(); }
bool IsString(const Value& v) { return v.IsStr(); }
bool IsNumber(const Value& v) { return v.IsNumber(); }
bool IsInteger(const Value& v) { return v.IsInt(); }
bool IsFloat(const Value& v) { return v.IsFloat(); }
bool IsBoolean(const Value& v) { return v.IsBool(); }
bool IsTrue(const Value& v) { return v.IsBool() && v.AsBool(); }
bool IsFalse(const Value& v) { return v.IsBool() && !v.AsBool(); }
bool IsMapping(const Value& v) { return v.IsDict(); }
// As in Jinja, something undefined counts as an empty sequence.
bool IsSequence(const Value& v) { return v.IsList() || v.IsStr() || v.IsDict() || v.IsUndefined(); }

template <int remainder>
absl::StatusOr<Value> Parity(const Value& self, const Call&) {
  if (!self.IsInt() && !self.IsBool()) return TypeError(self, "is neither odd nor even");
  return Value::Bool((self.AsInt() & 1) == remainder);
}

absl::StatusOr<Value> DivisibleBy(const Value& self, const Call& call) {
  const Value& by = call.values[0];
  if (!self.IsInt()) return TypeError(self, "is not divisible");
  if (!by.IsInt() || by.AsInt() == 0) return TypeError(by, "does not divide");
  return Value::Bool(by.AsInt() == -1 || self.AsInt() % by.AsInt() == 0);
}

constexpr char kEqual[] = "==", kNotEqual[] = "!=", kLess[] = "<",
               kLessEqual[] = "<=", kGreater[] = ">", kGreaterEqual[] = ">=", kIn[] = "in";

template <const char* op>
absl::StatusOr<Value> Comparison(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const bool result, Compare(op, self, call.values[0], call.work));
  return Value::Bool(result);
}

template <const char* op>
void AddComparison(std::initializer_list<std::string_view> names, std::vector<Builtin>* table) {
  for (const std::string_view name : names) {
    table->push_back({name, Comparison<op>, {"other"}, 1});
  }
}

std::vector<Builtin>* MakeTests() {
  auto* tests = new std::vector<Builtin>{
      {"boolean", TypeTest<IsBoolean>},
      {"defined", TypeTest<IsDefined>},
      {"divisibleby", DivisibleBy, {"num"}, 1},
      {"even", Parity<0>},
      {"false", TypeTest<IsFalse>},
      {"float", TypeTest<IsFloat>},
      {"integer", TypeTest<IsInteger>},
      {"iterable", TypeTest<IsSequence>},
      {"mapping", TypeTest<IsMapping>},
      {"none", TypeTest<IsNone>},
      {"number", TypeTest<IsNumber>},
      {"odd", Parity<1>},
      {"sequence", TypeTest<IsSequence>},
      {"string", TypeTest<IsString>},
      {"true", TypeTest<IsTrue>},
      {"undefined", TypeTest<IsUndefined>},
  };
  AddComparison<kEqual>({"eq", "equalto", "=="}, tests);
  AddComparison<kNotEqual>({"ne", "!="}, tests);
  AddComparison<kLess>({"lt", "lessthan", "<"}, tests);
  AddComparison<kLessEqual>({"le", "<="}, tests);
  AddComparison<kGreater>({"gt", "greaterthan", ">"}, tests);
  AddComparison<kGreaterEqual>({"ge", ">="}, tests);
  AddComparison<kIn>({"in"}, tests);
  return tests;
}

}  // namespace

const Builtin* FindTest(std::string_view name) {
  static const std::vector<Builtin>* const tests = MakeTests();
  return FindIn(*tests, name);
}

absl::StatusOr<bool> RunTest(const Builtin& test, const Value& value,
                             std::span<const Value> arguments, Work* work) {
  if (arguments.size() < test.required || arguments.size() > test.parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "test \"", std::string(test.name), "\" called with ", arguments.size(), " arguments"));
  }
  Call call;
  call.work = work;
  call.values.assign(arguments.begin(), arguments.end());
  call.parameters = arguments.size();
  TUTTI_ASSIGN_OR_RETURN(const Value result, test.function(value, call));
  return result.Truth();
}

}  // namespace tutti::text::jinja
