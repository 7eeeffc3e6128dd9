// "%s is %d" % values, and "{} is {}".format(values).
#pragma once

#include "absl/status/statusor.h"
#include "text/jinja/builtins.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// format % arguments: a tuple of values, a dict for %(name)s, or one value. What is put into markup
// is escaped.
//
// Errors: InvalidArgument as Python's TypeError and ValueError; ResourceExhausted.
// REQUIRES: format.IsStr()
absl::StatusOr<Value> PercentFormat(const Value& format, const Value& arguments, Work* work);

// format.format(...): fields {}, {0}, {name}, with .attribute, [item], !r, !s, !a and a spec, which
// may have fields itself.  Errors: as above.  REQUIRES: format.IsStr()
absl::StatusOr<Value> BraceFormat(const Value& format, const CallArguments& arguments, Work* work);

}  // namespace tutti::text::jinja
