// Context-free grammars in EBNF, as xgrammar and llama.cpp read it.
//
//   root ::= "yes" | "no" (" " word){1,3}   # the whole is `root`, or the first rule
//   word ::= [a-z] [a-z0-9_]*
//
// Strings in double quotes and classes in brackets have the escapes of regular expressions
// (regex_parser.h); `.` is any character; `*`, `+`, `?`, `{n}`, `{n,}` and `{n,m}` repeat; `|`
// separates alternatives; `#` begins a comment. A rule goes on until the next NAME ::=. A rule may
// call itself anywhere but at its beginning.
//
// Three terms are our own:
//
//   %json {"type": "object"}      a value by a schema of JSON Schema, which stands here as it is
//   %without "<call>" "</call>"   any text, also none, in which none of these strings is; all
//                                 strings behind the word belong to it: (%without "a") "b"
//   %special "<|python_tag|>"     the special token of this text; no ordinary text stands for it
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/build_work.h"
#include "grammar/graph.h"
#include "grammar/whitespace.h"

namespace tutti::grammar {

// A graph that is not finished, and the names of its rules.
// Errors: InvalidArgument with what is wrong and the byte; ResourceExhausted beyond the limits.
// `whitespace` of what %json says.
absl::StatusOr<Graph> ReadEbnf(std::string_view text, Whitespace whitespace, BuildWork* work,
                               std::vector<std::string>* names);

}  // namespace tutti::grammar
