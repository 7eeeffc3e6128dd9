#include "coordinator/service/model_vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "text/text_testing.h"

namespace tutti::coordinator {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> TextsOf(const v1::Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  size_t at = 0;
  for (const uint32_t length : vocabulary.lengths()) {
    texts.push_back(vocabulary.text().substr(at, length));
    at += length;
  }
  EXPECT_EQ(at, vocabulary.text().size());
  return texts;
}

TEST(ModelVocabularyTest, SaysWhatEachTokenAddsToAText) {
  const auto tokenizer = text::TinyTokenizer();
  const std::vector<TokenId> ends = {*tokenizer->SpecialId("<|end|>")};
  const auto vocabulary = VocabularyOf(*tokenizer, ends, tokenizer->vocab_size() + 3);
  ASSERT_NE(vocabulary, nullptr);
  EXPECT_THAT(vocabulary->end_ids(), ElementsAre(ends[0]));
  const std::vector<std::string> texts = TextsOf(*vocabulary);
  ASSERT_EQ(texts.size(), static_cast<size_t>(tokenizer->vocab_size()));
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
    const std::string text(tokenizer->TokenText(id).value_or(""));
    EXPECT_EQ(texts[static_cast<size_t>(id)], text);
    const auto& special = vocabulary->special_ids();
    EXPECT_EQ(std::count(special.begin(), special.end(), id), tokenizer->IsSpecial(id) ? 1 : 0);
  }
  EXPECT_EQ(texts[static_cast<size_t>(ends[0])], "<|end|>");
}

// Tokens for which the model has no row are never drawn.
TEST(ModelVocabularyTest, HasNoMoreTokensThanTheModel) {
  const auto tokenizer = text::TinyTokenizer();
  const auto vocabulary = VocabularyOf(*tokenizer, {}, 10);
  ASSERT_NE(vocabulary, nullptr);
  EXPECT_EQ(TextsOf(*vocabulary).size(), 10u);
}

}  // namespace
}  // namespace tutti::coordinator
