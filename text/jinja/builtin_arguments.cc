#include "text/jinja/builtin_arguments.h"

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/format.h"
#include "text/jinja/object.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"

namespace tutti::text::jinja {

absl::StatusOr<int64_t> IntArgument(const Call& call, size_t i, int64_t absent) {
  if (!call.Has(i)) return absent;
  if (!call.values[i].IsInt() && !call.values[i].IsBool())
    return BadArgument(call.values[i], "int");
  return call.values[i].AsInt();
}

absl::StatusOr<std::optional<std::string_view>> StrArgument(const Call& call, size_t i) {
  if (!call.HasValue(i)) return std::optional<std::string_view>();
  if (!call.values[i].IsStr()) return BadArgument(call.values[i], "str");
  return std::optional<std::string_view>(call.values[i].str());
}

absl::StatusOr<Text> TextArgument(const Call& call, size_t i) {
  if (!call.Has(i)) return Text();
  return ToText(call.values[i], call.work);
}

bool BoolArgument(const Call& call, size_t i, bool absent) {
  return call.Has(i) ? call.values[i].Truth() : absent;
}

absl::StatusOr<Value> FollowAttribute(const Value& item, const Value& attribute,
                                      const Value* fallback, Work* work) {
  if (attribute.IsNone()) return item;
  if (!attribute.IsStr()) {
    TUTTI_ASSIGN_OR_RETURN(Value found, GetItem(item, attribute, work));
    return found.IsUndefined() && fallback != nullptr ? *fallback : found;
  }
  Value value = item;
  std::string_view path = attribute.str();
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    int64_t index = 0;
    const bool is_index = !part.empty() &&
                          part.find_first_not_of("0123456789") == std::string_view::npos &&
                          absl::SimpleAtoi(Absl(part), &index);
    const Value key = is_index ? Value::Int(index) : Value::Literal(std::string(part));
    TUTTI_ASSIGN_OR_RETURN(value, GetItem(value, key, work));
    if (value.IsUndefined() && fallback != nullptr) value = *fallback;
    if (dot == std::string_view::npos) return value;
    path.remove_prefix(dot + 1);
  }
}

absl::StatusOr<Value> LateError(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return status;
  return Generator::Make({}, status);
}

Value IgnoreCase(const Value& value) {
  return value.IsStr() ? Value::Str(Lower(value.text()), value.IsMarkup()) : value;
}

}  // namespace tutti::text::jinja
