#include "coordinator/service/prompt_reasoning.h"

#include <gtest/gtest.h>

#include "coordinator/limits.h"
#include "text/text_testing.h"

namespace tutti::coordinator {
namespace {

bool Ends(std::string_view prompt) {
  const auto tokenizer = text::TinyTokenizer();
  return ReasoningOf(*tokenizer->EncodePrompt(prompt), *tokenizer) == PromptReasoning::kOpened;
}

TEST(EndsInReasoningTest, IsAFactOfTheRenderedPrompt) {
  EXPECT_TRUE(Ends("<|end|>assistant\n<think>\n"));
  EXPECT_TRUE(Ends("<|end|>assistant\n<think>\nSo far I"));
  EXPECT_TRUE(Ends("<think>"));
  EXPECT_FALSE(Ends("<|end|>assistant\n"));
  EXPECT_FALSE(Ends("<|end|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(Ends("<|end|>assistant\n<think>\na\n</think>\nThe answer is"));
  EXPECT_TRUE(Ends("<|end|>assistant\n<think>a</think>b<think>"));
  EXPECT_FALSE(Ends(""));
}

// A question about the mark opens nothing.
TEST(EndsInReasoningTest, LooksAtTheModelsTurnAlone) {
  EXPECT_FALSE(Ends("what does <think> mean?<|end|>assistant\n"));
  EXPECT_FALSE(Ends("<think>\n<|end|>"));
}

TEST(EndsInReasoningTest, AClosedOneIsAnother) {
  const auto tokenizer = text::TinyTokenizer();
  const auto of = [&](std::string_view prompt) {
    return ReasoningOf(*tokenizer->EncodePrompt(prompt), *tokenizer);
  };
  EXPECT_EQ(of("<|end|>assistant\n"), PromptReasoning::kNone);
  EXPECT_EQ(of("<|end|>assistant\n<think>\n\n</think>\n\n"), PromptReasoning::kClosed);
  EXPECT_EQ(of("<think></think><|end|>assistant\n"), PromptReasoning::kNone);
}

TEST(PrefaceTest, IsWhatIsLeftOfAReasoning) {
  const std::string knows = "{% if enable_thinking %}<think>{% endif %}", knows_not = "{{ x }}";
  const auto is = [](PromptReasoning reasoning, const std::string& source, const std::string& open,
                     const std::string& close) {
    const v1::GrammarPreface preface = PrefaceOf(reasoning, source);
    return preface.open() == open && preface.close() == close;
  };
  EXPECT_TRUE(is(PromptReasoning::kOpened, knows, "", "</think>"));
  EXPECT_TRUE(is(PromptReasoning::kOpened, knows_not, "", "</think>"));
  EXPECT_TRUE(is(PromptReasoning::kNone, knows, "<think>", "</think>"));
  EXPECT_TRUE(is(PromptReasoning::kNone, knows_not, "", ""));
  EXPECT_TRUE(is(PromptReasoning::kClosed, knows, "", ""));
}

TEST(EndsInReasoningTest, LooksBackSoFarAndNoFarther) {
  EXPECT_TRUE(Ends("<think>" + std::string(kTurnTokensMax - 1, 'a')));
  EXPECT_FALSE(Ends("<think>" + std::string(kTurnTokensMax, 'a')));
}

}  // namespace
}  // namespace tutti::coordinator
