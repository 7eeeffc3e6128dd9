// Tests: the names behind `is`.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/object.h"
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
bool IsInteger(const Value& v) { return v.IsInt() || v.IsBig(); }
bool IsFloat(const Value& v) { return v.IsFloat(); }
bool IsBoolean(const Value& v) { return v.IsBool(); }
bool IsTrue(const Value& v) { return v.IsBool() && v.AsBool(); }
bool IsFalse(const Value& v) { return v.IsBool() && !v.AsBool(); }
bool IsMapping(const Value& v) { return v.IsDict(); }
// As in Jinja, something undefined counts as an empty sequence.
bool IsSequence(const Value& v) {
  if (v.IsList()) return !v.list()->is_view();
  return v.IsStr() || v.IsDict() || v.IsUndefined();
}
bool IsCallable(const Value& v) {
  // Undefined has a way to be called, which is to raise an error.
  return v.IsUndefined() || (v.AsObject() != nullptr && v.AsObject()->IsCallable());
}
bool IsEscaped(const Value& v) { return v.IsMarkup(); }

template <int remainder>
absl::StatusOr<Value> Parity(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value rest, Arithmetic("%", self, Value::Int(2), call.work));
  return Value::Bool(Equal(rest, Value::Int(remainder)));
}

absl::StatusOr<Value> DivisibleBy(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value rest, Arithmetic("%", self, call.values[0], call.work));
  return Value::Bool(Equal(rest, Value::Int(0)));
}

// str(value).islower() and isupper().
absl::StatusOr<Value> CaseTest(std::string_view method, const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(Text text, ToText(self, call.work));
  return CallBuiltin(*FindStrMethod(method), Value::Str(std::move(text)), {}, call.work);
}
absl::StatusOr<Value> LowerTest(const Value& self, const Call& call) {
  return CaseTest("islower", self, call);
}
absl::StatusOr<Value> UpperTest(const Value& self, const Call& call) {
  return CaseTest("isupper", self, call);
}

absl::StatusOr<Value> SameAs(const Value& self, const Call& call) {
  return Value::Bool(Same(self, call.values[0]));
}

template <const Builtin* (*find)(std::string_view)>
absl::StatusOr<Value> NamesBuiltin(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(CheckHashable(self, call.work));
  return Value::Bool(self.IsStr() && find(self.str()) != nullptr);
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
      {"callable", TypeTest<IsCallable>},
      {"defined", TypeTest<IsDefined>},
      {"divisibleby", DivisibleBy, {"num"}, 1},
      {"escaped", TypeTest<IsEscaped>},
      {"even", Parity<0>},
      {"false", TypeTest<IsFalse>},
      {"filter", NamesBuiltin<FindFilter>},
      {"float", TypeTest<IsFloat>},
      {"integer", TypeTest<IsInteger>},
      {"iterable", TypeTest<IsIterable>},
      {"lower", LowerTest},
      {"mapping", TypeTest<IsMapping>},
      {"none", TypeTest<IsNone>},
      {"number", TypeTest<IsNumber>},
      {"odd", Parity<1>},
      {"sameas", SameAs, {"other"}, 1},
      {"sequence", TypeTest<IsSequence>},
      {"string", TypeTest<IsString>},
      {"test", NamesBuiltin<FindTest>},
      {"true", TypeTest<IsTrue>},
      {"undefined", TypeTest<IsUndefined>},
      {"upper", UpperTest},
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

}  // namespace tutti::text::jinja
