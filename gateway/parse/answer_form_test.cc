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
  EXPECT_EQ(FormOfFile("Qwen-Qwen3-0.6B.jinja"),
            (AnswerForm{.tools = ToolForm::kHermes, .reasoning = ReasoningForm::kThink}));
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

// Where it begins is a fact of the rendered prompt, and no matter of the source.
TEST(FormOfTemplate, SeesThatThereIsThinking) {
  for (const char* source : {"{{ content.split('</think>')[-1] }}", "{{ '<think>\\n' }}"}) {
    EXPECT_EQ(FormOfTemplate(source), AnswerForm{.reasoning = ReasoningForm::kThink}) << source;
  }
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
