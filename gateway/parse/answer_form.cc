#include "gateway/parse/answer_form.h"

#include <utility>

namespace tutti::gateway {
namespace {

constexpr std::pair<std::string_view, ToolForm> kToolForms[] = {
    {"none", ToolForm::kNone},           {"hermes", ToolForm::kHermes},
    {"qwen3_coder", ToolForm::kQwenXml}, {"llama3_json", ToolForm::kLlama3},
    {"chatglm3", ToolForm::kChatGlm3},
};

constexpr std::pair<std::string_view, ReasoningForm> kReasoningForms[] = {
    {"none", ReasoningForm::kNone},
    {"think", ReasoningForm::kThink},
    {"think_begun", ReasoningForm::kThinkBegun},
};

template <typename Named>
auto Find(const Named& forms, std::string_view name)
    -> std::optional<std::decay_t<decltype(forms[0].second)>> {
  for (const auto& [known, form] : forms) {
    if (known == name) return form;
  }
  return std::nullopt;
}

template <typename Named>
std::string Join(const Named& forms) {
  std::string names;
  for (const auto& [name, form] : forms) {
    if (!names.empty()) names += ',';
    names += name;
  }
  return names;
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ToolForm ToolsOf(std::string_view chat_template) {
  if (Has(chat_template, "<tool_call>")) {
    return Has(chat_template, "<function=") && Has(chat_template, "<parameter=")
               ? ToolForm::kQwenXml
               : ToolForm::kHermes;
  }
  // The role of results, and the format in which it asks for calls.
  if (Has(chat_template, "ipython") && Has(chat_template, "\"parameters\": ")) {
    return ToolForm::kLlama3;
  }
  if (Has(chat_template, "tool_call(") && Has(chat_template, "observation")) {
    return ToolForm::kChatGlm3;
  }
  return ToolForm::kNone;
}

}  // namespace

AnswerForm FormOfTemplate(std::string_view chat_template) {
  AnswerForm form{.tools = ToolsOf(chat_template)};
  // Templates that are published write no other mark.
  if (Has(chat_template, "<think>") || Has(chat_template, "</think>")) {
    form.reasoning = ReasoningForm::kThink;
  }
  return form;
}

std::optional<ToolForm> ToolFormNamed(std::string_view name) { return Find(kToolForms, name); }
std::optional<ReasoningForm> ReasoningFormNamed(std::string_view name) {
  return Find(kReasoningForms, name);
}
std::string ToolFormNames() { return Join(kToolForms); }
std::string ReasoningFormNames() { return Join(kReasoningForms); }

}  // namespace tutti::gateway
