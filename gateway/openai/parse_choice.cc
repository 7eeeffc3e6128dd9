#include "gateway/openai/parse_choice.h"

#include <memory>
#include <utility>

namespace tutti::gateway {

std::optional<ApiError> ChooseParse(const ParseRules& rules, const AnswerForm& of_template,
                                    GenerationRequest* request) {
  if (!request->names.chat || request->parse != nullptr) return std::nullopt;
  AnswerWishes& wishes = request->wishes;
  ParseOptions options{.form = of_template,
                       .one_call_only = wishes.one_call_only,
                       .tells_reasoning = wishes.reasoning};
  AnswerForm& form = options.form;
  if (rules.tools.has_value()) form.tools = *rules.tools;
  if (rules.reasoning.has_value()) form.reasoning = *rules.reasoning;
  if (wishes.calls && form.tools == ToolForm::kNone && !rules.tools.has_value()) {
    return BadRequest("tools",
                      "tools: the chat template of this model shows no form of calls that is known "
                      "here; its operator may choose one with --tool-parser");
  }
  if (!wishes.calls) form.tools = ToolForm::kNone;
  if (form.tools == ToolForm::kNone && form.reasoning == ReasoningForm::kNone) return std::nullopt;
  // These write their calls with tokens that are left out of texts.
  if (form.tools == ToolForm::kLlama3 || form.tools == ToolForm::kChatGlm3) {
    for (v1::GenerateRequest& call : request->calls) {
      call.mutable_sampling()->set_skip_special_tokens(false);
    }
  }
  options.functions = std::move(wishes.functions);
  request->parse = std::make_shared<const ParseOptions>(std::move(options));
  request->old_reasoning_name = rules.old_reasoning_name;
  return std::nullopt;
}

}  // namespace tutti::gateway
