// The forms that are looked for in the answers to a conversation: by what the request wants, what
// the model's chat template shows, and what the operator says.
//
// Pure.  Thread: any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "gateway/api_error.h"
#include "gateway/limits.h"
#include "gateway/parse/answer_form.h"
#include "gateway/parse/call_grammar.h"
#include "gateway/service_error.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

// The operator's; what is not set, the chat template says.
struct ParseRules {
  std::optional<ToolForm> tools;
  std::optional<ReasoningForm> reasoning;
  bool old_reasoning_name = false;
};

// The wishes of a conversation for its answers beside text.
struct AnswerWishes {
  bool calls = false;  // of `functions`, which are the prompt's tools
  Functions functions;
  bool forced = false;  // there is to be a call
  bool named = false;   // of the function that is named, and no other
  // The functions that may be called, where the answer is to be by a grammar; else none.
  std::vector<CallableFunction> callable;
  absl::flat_hash_set<std::string> callable_names;
  std::optional<ApiError> no_xml;  // why they cannot be in ToolForm::kQwenXml
  size_t definitions_left = kRepeatedDefinitionsBytesMax;  // of them, in that form
  bool one_call_only = false;
  bool reasoning = true;
};

// The options of a conversation, null where all of its answers is content; the wishes' functions
// move into them. Asks the service for the tokens that they need to see, and, where calls are to be
// by a grammar, writes that in the model's form. An error where calls are wanted that nobody would
// find, or that the form cannot have.
std::variant<std::shared_ptr<const ParseOptions>, ApiError> ChooseParse(
    const ParseRules& rules, const AnswerForm& of_template, AnswerWishes* wishes, FieldNames* names,
    std::vector<v1::GenerateRequest>* calls);

}  // namespace tutti::gateway
