// Regular expressions: the dialect, as a tree.
//
// The dialect is that of ECMA-262 with the flag u, as far as it is regular: characters, `.`,
// classes, \d \w \s and their complements, escapes (\n \t \r \f \v \0 \xHH \uHHHH \u{H…} \cX, and
// any character that is no letter or digit), groups of any kind (named ones too), `|`, `*` `+` `?`
// `{n}` `{n,}` `{n,m}` with or without a `?` behind, `^` and `$` at beginning and end of the text
// only. \d and \w are of ASCII; \s is the blanks that ECMA-262 and Python agree on, \S what neither
// has. Refused by name: assertions that look around, \b, references to groups, \p, flags.
//
// Values; pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/build_work.h"
#include "grammar/char_set.h"

namespace tutti::grammar {

struct RegexTree {
  enum class Kind { kEmpty, kSet, kBegin, kEnd, kSequence, kChoice, kRepeat };
  static constexpr int64_t kUnbounded = INT64_MAX;

  Kind kind = Kind::kEmpty;
  CharSet set;                      // kSet; may be empty: no text
  std::vector<RegexTree> children;  // of kRepeat one
  int64_t min = 0;                  // kRepeat
  int64_t max = 0;
};

// Errors: InvalidArgument with what is wrong and the byte: no expression, a part that is refused,
// longer than kRegexBytesMax, deeper than kSourceDepthMax, a count beyond kRegexCountMax.
absl::StatusOr<RegexTree> ParseRegex(std::string_view text, BuildWork* work);

}  // namespace tutti::grammar
