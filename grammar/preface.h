// Text that comes before a grammar's own.
#pragma once

#include <string>

#include "grammar/graph.h"

namespace tutti::grammar {

// Free but for its end, such as what a model thinks before it answers.
struct Preface {
  std::string open;   // what it begins with; empty: it has begun already
  std::string close;  // what it ends with; empty: there is no preface
};

// Puts it before a graph that is not finished. With `open` empty: any text up to and with the first
// `close`, then at most kWhitespaceBytesMax blanks, then the graph's text. Otherwise that behind
// blanks and `open`, or the graph's text at once. Both may be special tokens of these texts too.
// Errors: InvalidArgument for an opening without a close, or one of them longer than
// kPrefaceBytesMax or no UTF-8.
absl::Status AddPreface(const Preface& preface, Graph* graph);

}  // namespace tutti::grammar
