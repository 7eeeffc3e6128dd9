// The grammar of answers that call functions in a model's own form: rules of EBNF by which only
// what the form's parser (call_forms.h) reads back as such calls can be written.
//
// Pure.  Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/parse/answer_form.h"

namespace tutti::gateway {

// A function, and what its arguments may be.
struct CallableFunction {
  std::string name;
  std::string path;  // of its schema, or its own, in the request
  // A term of EBNF: the arguments as one JSON object.
  std::string json;
  // The same, as parameters one by one (xml_parameters.h), for ToolForm::kQwenXml.
  std::string xml;
};

// What an answer may be beside calls.
struct CallRules {
  bool must_call = false;
  // At least 1.
  size_t calls_max = 1;
  // A term of EBNF for an answer without calls; empty: any text, which may also stand before them.
  std::string content;
  std::string content_path;  // of what it is made of
};

struct CallGrammar {
  std::string ebnf;
  // Where in the rules what was taken from a field of the request begins, in their order.
  std::vector<std::pair<size_t, std::string>> parts;
};

// REQUIRES: a form other than kNone; at least one function, of names that are safe in every form
// (IsCallableName) and differ
CallGrammar GrammarOfCalls(ToolForm form, const std::vector<CallableFunction>& functions,
                           const CallRules& rules);

// Whether every form has a place for the name: printable ASCII without blanks and signs of markup.
bool IsCallableName(std::string_view name);

// A text as a string of EBNF, with its quotation marks.
std::string EbnfString(std::string_view text);
// A schema as a term of EBNF.
std::string EbnfJson(std::string_view schema);

}  // namespace tutti::gateway
