#include "text/tiktoken_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "text/text_break.h"
#include "text/text_testing.h"
#include "text/tokenizer.h"

namespace tutti::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Bytes 0 to 255, then `words`.
std::string Tiktoken(const std::vector<std::string>& words) {
  std::string file;
  int rank = 0;
  for (int byte = 0; byte < 256; ++byte) {
    absl::StrAppend(&file, absl::Base64Escape(std::string(1, static_cast<char>(byte))), " ", rank++,
                    "\n");
  }
  for (const std::string& word : words) {
    absl::StrAppend(&file, absl::Base64Escape(word), " ", rank++, "\n");
  }
  return file;
}

TEST(TiktokenTest, MergesNeighboursThatSpellTheLowestRank) {
  const auto tokenizer =
      BuildTokenizer(ParseQwenTiktoken(Tiktoken({"bc", "ab", "abc", " ab", "xyz"})));
  EXPECT_THAT(EncodeUser(*tokenizer, "abc"), ElementsAre(258));
  EXPECT_THAT(EncodeUser(*tokenizer, "ab"), ElementsAre(257));
  EXPECT_THAT(EncodeUser(*tokenizer, "abcab"), ElementsAre(258, 257));
  EXPECT_THAT(EncodeUser(*tokenizer, "c ab"), ElementsAre('c', 259));
  // No merge makes it, but a piece that is a token is that token.
  EXPECT_THAT(EncodeUser(*tokenizer, "xyz"), ElementsAre(260));
  EXPECT_THAT(EncodeUser(*tokenizer, "wxyz"), ElementsAre('w', 'x', 'y', 'z'));
  EXPECT_THAT(EncodeUser(*tokenizer, "e\u0301"), ElementsAre(0xC3, 0xA9));  // NFC
}

TEST(TiktokenTest, SpecialTokensFollowTheOrdinaryOnes) {
  const auto tokenizer = BuildTokenizer(ParseQwenTiktoken(Tiktoken({"ab"})));
  EXPECT_EQ(tokenizer->SpecialId("<|endoftext|>"), 257);
  EXPECT_EQ(tokenizer->SpecialId("<|im_start|>"), 258);
  EXPECT_EQ(tokenizer->SpecialId("<|im_end|>"), 259);
  EXPECT_EQ(tokenizer->SpecialId("<|extra_0|>"), 260);
  EXPECT_EQ(tokenizer->SpecialId("<|extra_204|>"), 464);
  EXPECT_EQ(tokenizer->vocab_size(), 465);
  EXPECT_THAT(tokenizer->end_of_turn(), ElementsAre(259, 258, 257));
  EXPECT_THAT(EncodeTrusted(*tokenizer, "ab<|im_end|>ab"), ElementsAre(256, 259, 256));
  EXPECT_EQ(EncodeUser(*tokenizer, "<|im_end|>").size(), 10u);
  EXPECT_EQ(*tokenizer->EncodePrompt("ab"), EncodeUser(*tokenizer, "ab"));
}

TEST(TiktokenTest, ATextBreakEndsATextAndHasNoId) {
  const auto tokenizer = BuildTokenizer(ParseQwenTiktoken(Tiktoken({"ab"})));
  EXPECT_THAT(EncodeTrusted(*tokenizer, absl::StrCat("a", std::string(kTextBreak), "b")),
              ElementsAre('a', 'b'));
  EXPECT_GT(EncodeUser(*tokenizer, kTextBreak).size(), 5u);
}

TEST(TiktokenTest, RefusesByLine) {
  const std::string good = Tiktoken({});
  struct Case {
    std::string line, named;
  };
  for (const Case& c : std::vector<Case>{
           {"YWI=", "qwen.tiktoken:257: not a token and a rank"},
           {"YWI 256", "qwen.tiktoken:257: the token is not base64"},
           {"Y*I= 256", "qwen.tiktoken:257: the token is not base64"},
           {" 256", "qwen.tiktoken:257: the token is not base64"},
           {"YWI= x", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= -1", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= ", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= 99999999999999999999", "qwen.tiktoken:257: the rank is not a number"},
           {"YWI= 257", "qwen.tiktoken:257: the rank is 257, expected is 256"},
           {"YWI= 255", "qwen.tiktoken:257: the rank is 255, expected is 256"},
           {absl::StrCat(absl::Base64Escape(std::string(600, 'x')), " 256"),
            "qwen.tiktoken:257: has 804 bytes, at most 700"}}) {
    EXPECT_EQ(MessageOf(ParseQwenTiktoken(good + c.line).status()), c.named);
  }
  const auto repeated = Tokenizer::Create(*ParseQwenTiktoken(good + "YQ== 256"));
  EXPECT_THAT(MessageOf(repeated.status()), HasSubstr("token 256 repeats another one"));
  const auto lacking = Tokenizer::Create(*ParseQwenTiktoken("YQ== 0\n"));
  EXPECT_THAT(MessageOf(lacking.status()), HasSubstr("no token stands for byte 0x00"));
  EXPECT_FALSE(Tokenizer::Create(*ParseQwenTiktoken("")).ok());
}

}  // namespace
}  // namespace tutti::text
