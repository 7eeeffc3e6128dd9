// Context-free grammars in EBNF, as xgrammar and llama.cpp read it.
//
//   root ::= "yes" | "no" (" " word){1,3}   # the whole is `root`, or the first rule
//   word ::= [a-z] [a-z0-9_]*
//
// Strings in double quotes and classes in brackets have the escapes of regular expressions
// (regex_parser.h); `.` is any character; `*`, `+`, `?`, `{n}`, `{n,}` and `{n,m}` repeat; `|`
// separates alternatives; `#` begins a comment. A rule goes on until the next NAME ::=. A rule may
// call itself anywhere but at its beginning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/graph.h"

namespace tutti::grammar {

// A graph that is not finished, and the names of its rules.
// Errors: InvalidArgument with what is wrong and the byte; ResourceExhausted beyond the limits.
absl::StatusOr<Graph> ReadEbnf(std::string_view text, std::vector<std::string>* names);

}  // namespace tutti::grammar
