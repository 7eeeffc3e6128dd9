// Reads the arguments of a builtin.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "text/jinja/builtins.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

namespace tutti::text::jinja {

// The parameter as an integer or bool.  Errors: InvalidArgument when it is something else.
absl::StatusOr<int64_t> IntArgument(const Call& call, size_t i, int64_t absent);
// The parameter as a string; nothing when it is absent or None.  Errors: as above.
absl::StatusOr<std::optional<std::string_view>> StrArgument(const Call& call, size_t i);
// str(parameter); empty when it is absent.  Errors: as ToText.
absl::StatusOr<Text> TextArgument(const Call& call, size_t i);
// Its truth; `absent` when it is.
bool BoolArgument(const Call& call, size_t i, bool absent = false);

// item.a.b for the attribute "a.b", item[0] for 0 or "0", the item itself for None.
// `fallback`: what replaces each part that is not there, where it is not null.
//
// Errors: InvalidArgument of something undefined, or an attribute that is neither.
absl::StatusOr<Value> FollowAttribute(const Value& item, const Value& attribute,
                                      const Value* fallback, Work* work);

// The error of a generator, which is found when it is read; what takes too much, at once.
absl::StatusOr<Value> LateError(const absl::Status& status);
// A filter that is a generator in Jinja: its errors are late.
template <auto filter>
absl::StatusOr<Value> Late(const Value& self, const Call& call) {
  absl::StatusOr<Value> made = filter(self, call);
  return made.ok() ? std::move(made) : LateError(made.status());
}

// A string in lower case; other values as they are.
Value IgnoreCase(const Value& value);

}  // namespace tutti::text::jinja
