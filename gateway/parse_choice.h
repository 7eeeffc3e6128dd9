// The forms that are looked for in the answers to a conversation: by what the request wants, what
// the model's chat template shows, and what the operator says.
//
// Pure.  Thread: any.
#pragma once

#include <optional>

#include "gateway/openai/generation_request.h"

namespace tutti::gateway {

// The operator's; what is not set, the chat template says.
struct ParseRules {
  std::optional<ToolForm> tools;
  std::optional<ReasoningForm> reasoning;
  bool old_reasoning_name = false;
};

// Sets the options of a conversation, asks the service for the tokens that it needs to see, and,
// where calls are to be by a grammar, writes that in the model's form. An error where calls are
// wanted that nobody would find, or that the form cannot have.
std::optional<ApiError> ChooseParse(const ParseRules& rules, const AnswerForm& of_template,
                                    GenerationRequest* request);

}  // namespace tutti::gateway
