#include "gateway/parse_choice.h"

#include <utility>

#include "gateway/grammar_fields.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// What an answer may be instead of calls: JSON, where the request says so.
void SetContent(const v1::Grammar& format, const std::string& path, CallRules* rules) {
  if (!IsJson(format)) return;
  rules->content =
      EbnfJson(format.has_json_object() ? R"({"type":"object"})" : format.json_schema());
  rules->content_path = path;
}

// Has the answer be calls of the request's functions, or what it may be beside them.
std::optional<ApiError> SetCallGrammar(ToolForm form, AnswerWishes* asked_for, FieldNames* names,
                                       std::vector<v1::GenerateRequest>* calls) {
  AnswerWishes& wishes = *asked_for;
  if (form == ToolForm::kNone && !wishes.forced) return std::nullopt;
  if (form == ToolForm::kNone) {
    return BadRequest("tool_choice",
                      "tool_choice asks for calls, which this service does not look for in "
                      "answers of this model");
  }
  if (form == ToolForm::kQwenXml && wishes.no_xml.has_value()) return wishes.no_xml;
  CallRules rules{.must_call = wishes.forced};
  if (!wishes.one_call_only && !wishes.named) rules.calls_max = kCallsPerOutputMax;
  for (v1::GenerateRequest& call : *calls) {
    const v1::Grammar& asked = call.grammar();
    if (asked.source_case() != v1::Grammar::SOURCE_NOT_SET && !IsJson(asked)) {
      const std::string& path = names->grammar;
      return BadRequest(path, path +
                                  " cannot be served beside calls of functions by a grammar: "
                                  "leave it or tool_choice and strict out");
    }
    SetContent(asked, names->grammar, &rules);
    CallGrammar grammar = GrammarOfCalls(form, wishes.callable, rules);
    call.mutable_grammar()->set_ebnf(std::move(grammar.ebnf));
    names->grammar_parts = std::move(grammar.parts);
  }
  names->grammar = "tools";
  wishes.callable.clear();
  return std::nullopt;
}

}  // namespace

std::variant<std::shared_ptr<const ParseOptions>, ApiError> ChooseParse(
    const ParseRules& rules, const AnswerForm& of_template, AnswerWishes* wishes, FieldNames* names,
    std::vector<v1::GenerateRequest>* calls) {
  ParseOptions options{.form = of_template,
                       .one_call_only = wishes->one_call_only,
                       .tells_reasoning = wishes->reasoning,
                       .named_call = wishes->named};
  AnswerForm& form = options.form;
  if (rules.tools.has_value()) form.tools = *rules.tools;
  if (rules.reasoning.has_value()) form.reasoning = *rules.reasoning;
  if (wishes->calls && form.tools == ToolForm::kNone && !rules.tools.has_value()) {
    return BadRequest("tools",
                      "tools: the chat template of this model shows no form of calls that is known "
                      "here; its operator may choose one with --tool-parser");
  }
  if (!wishes->callable.empty()) {
    if (auto error = SetCallGrammar(form.tools, wishes, names, calls)) return *std::move(error);
  }
  options.by_grammar = calls->front().has_grammar();
  if (!wishes->calls) form.tools = ToolForm::kNone;
  if (form.tools == ToolForm::kNone && form.reasoning == ReasoningForm::kNone) {
    return std::shared_ptr<const ParseOptions>();
  }
  // These write their calls with tokens that are left out of texts.
  if (form.tools == ToolForm::kLlama3 || form.tools == ToolForm::kChatGlm3) {
    for (v1::GenerateRequest& call : *calls) {
      call.mutable_sampling()->set_skip_special_tokens(false);
    }
  }
  options.functions = std::move(wishes->functions);
  return std::make_shared<const ParseOptions>(std::move(options));
}

}  // namespace tutti::gateway
