// The form in which a model writes calls of functions and its reasoning, and what a request wants
// of them.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/parse/value_types.h"

namespace tutti::gateway {

enum class ToolForm : uint8_t {
  kNone,
  kHermes,    // <tool_call>{"name": NAME, "arguments": {...}}</tool_call>
  kQwenXml,   // <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
  kLlama3,    // {"name": NAME, "parameters": {...}}, maybe behind <|python_tag|>; several with ;
  kChatGlm3,  // NAME, a line end, ```python, tool_call(KEY=VALUE), ```
};

enum class ReasoningForm : uint8_t {
  kNone,
  kThink,       // <think>...</think>, or ...</think> where the prompt ends with <think>
  kThinkBegun,  // ...</think>, whatever the prompt
};

struct AnswerForm {
  ToolForm tools = ToolForm::kNone;
  ReasoningForm reasoning = ReasoningForm::kNone;

  bool operator==(const AnswerForm&) const = default;
};

// The form of answers to prompts of this chat template, by what it shows the model; of a template
// that shows nothing known, none.
AnswerForm FormOfTemplate(std::string_view chat_template);

// The form by the names that flags have for them, "none" among them.
std::optional<ToolForm> ToolFormNamed(std::string_view name);
std::optional<ReasoningForm> ReasoningFormNamed(std::string_view name);
// The names, with commas between them.
std::string ToolFormNames();
std::string ReasoningFormNames();

// The functions that may be called, by name.
using Functions = std::map<std::string, Parameters, std::less<>>;

// The forms that are looked for in the outputs of one request.
struct ParseOptions {
  AnswerForm form;
  Functions functions;
  bool one_call_only = false;
  bool tells_reasoning = true;  // false: it is left out of the answer
  // The answer is by a grammar, which begins behind the reasoning: calls are in no other place.
  bool by_grammar = false;
  bool named_call = false;  // the request named the function
};

}  // namespace tutti::gateway
