#include "coordinator/service/prompt_reasoning.h"

#include <gtest/gtest.h>

#include "coordinator/limits.h"
#include "text/text_testing.h"

namespace tutti::coordinator {
namespace {

bool Ends(std::string_view prompt) {
  const auto tokenizer = text::TinyTokenizer();
  return EndsInReasoning(*tokenizer->EncodePrompt(prompt), *tokenizer);
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

TEST(EndsInReasoningTest, LooksBackSoFarAndNoFarther) {
  EXPECT_TRUE(Ends("<think>" + std::string(kTurnTokensMax - 1, 'a')));
  EXPECT_FALSE(Ends("<think>" + std::string(kTurnTokensMax, 'a')));
}

}  // namespace
}  // namespace tutti::coordinator
