#include "gateway/parse/answer_form.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/files_testing.h"
#include "text/builtin_templates.h"

namespace tutti::gateway {
namespace {

AnswerForm FormOfFile(const std::string& name) {
  std::ifstream file(TestData() + "/templates/" + name, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(text.empty()) << name;
  return FormOfTemplate(text);
}

TEST(FormOfTemplate, KnowsPublishedTemplates) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no real templates";
  EXPECT_EQ(FormOfFile("Qwen-Qwen2.5-7B-Instruct.jinja"), AnswerForm{.tools = ToolForm::kHermes});
  EXPECT_EQ(FormOfFile("Qwen-Qwen3-0.6B.jinja"), (AnswerForm{.tools = ToolForm::kHermes,
                                                             .reasoning = ReasoningForm::kThink,
                                                             .thinking_is_optional = true}));
  EXPECT_EQ(FormOfFile("meta-llama-Llama-3.1-8B-Instruct.jinja"),
            AnswerForm{.tools = ToolForm::kLlama3});
  EXPECT_EQ(FormOfFile("Qwen1-chatml.jinja"), AnswerForm());
}

TEST(FormOfTemplate, KnowsOurOwn) {
  EXPECT_EQ(FormOfTemplate(text::kChatGlmTemplate), AnswerForm{.tools = ToolForm::kChatGlm3});
  EXPECT_EQ(FormOfTemplate(text::kQwenChatTemplate), AnswerForm());
  EXPECT_EQ(FormOfTemplate(""), AnswerForm());
}

TEST(FormOfTemplate, KnowsQwenCoder) {
  EXPECT_EQ(FormOfTemplate("{{ '<tool_call>\\n<function=example>\\n<parameter=a>' }}").tools,
            ToolForm::kQwenXml);
}

// The ends of templates, as they are published: the last opens its <think> in the prompt unless the
// request says no, and in any order of the branches.
TEST(FormOfTemplate, SeesWhereThinkingBegins) {
  const std::string history = "{{ content.split('</think>')[-1] }}{% if add_generation_prompt %}";
  const auto form = [&](const std::string& end) { return FormOfTemplate(history + end); };
  EXPECT_EQ(form("{{ '<|im_start|>assistant\\n' }}{% endif %}").reasoning, ReasoningForm::kThink);
  EXPECT_EQ(form("{{ 'assistant\\n<think>\\n' }}{% endif %}"),
            AnswerForm{.reasoning = ReasoningForm::kThinkBegun});
  const AnswerForm optional{.reasoning = ReasoningForm::kThinkBegun, .thinking_is_optional = true};
  EXPECT_EQ(form("{% if enable_thinking is defined and not enable_thinking %}"
                 "{{ '<think>\\n\\n</think>\\n\\n' }}{% else %}{{ '<think>\\n' }}{% endif %}"),
            optional);
  EXPECT_EQ(form("{% if enable_thinking is not defined or enable_thinking %}{{ '<think>\\n' }}"
                 "{% else %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"),
            optional);
}

TEST(FormNames, AreThoseOfFlags) {
  EXPECT_EQ(ToolFormNamed("qwen3_coder"), ToolForm::kQwenXml);
  EXPECT_EQ(ToolFormNamed("auto"), std::nullopt);
  EXPECT_EQ(ReasoningFormNamed("none"), ReasoningForm::kNone);
  EXPECT_EQ(ToolFormNames(), "none,hermes,qwen3_coder,llama3_json,chatglm3");
  EXPECT_EQ(ReasoningFormNames(), "none,think,think_begun");
}

}  // namespace
}  // namespace tutti::gateway
