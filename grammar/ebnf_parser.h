// Context-free grammars in EBNF (ebnf.h): the source as trees.
//
// Values; pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/build_work.h"
#include "grammar/char_set.h"

namespace tutti::grammar {

struct EbnfPart {
  enum class Kind { kText, kSet, kRule, kJson, kWithout, kSpecial, kSequence, kChoice, kRepeat };
  static constexpr uint32_t kUnbounded = UINT32_MAX;

  Kind kind = Kind::kText;
  std::string text;                // kText; a rule's name; a schema; a special token's text
  std::vector<std::string> texts;  // kWithout
  CharSet set;                     // kSet
  std::vector<EbnfPart> children;  // of kRepeat one
  uint32_t min = 0;                // kRepeat
  uint32_t max = kUnbounded;
  size_t at = 0;  // the byte, of what is not known to be right before all is read
};

struct EbnfRule {
  std::string name;
  EbnfPart body;
};

// At least one rule, no name twice.
// Errors: InvalidArgument with what is wrong and the byte; ResourceExhausted as BuildWork's.
absl::StatusOr<std::vector<EbnfRule>> ParseEbnf(std::string_view text, BuildWork* work);

}  // namespace tutti::grammar
