#include "client/flag_words.h"

#include <gtest/gtest.h>

namespace tutti::client {
namespace {

TEST(FlagWords, AFieldIsNamedAsItsFlag) {
  EXPECT_EQ(InWordsOfFlags("sampling.top_p is 1.5, it must lie in (0, 1]"),
            "--top-p is 1.5, it must lie in (0, 1]");
  EXPECT_EQ(InWordsOfFlags("sampling.bad_words[2]: has 0 bytes"), "--bad-word[2]: has 0 bytes");
  EXPECT_EQ(InWordsOfFlags("n is 1000, the limit is 64"), "--outputs is 1000, the limit is 64");
  EXPECT_EQ(InWordsOfFlags("token_ids.ids[0] is 9"), "--token-ids[0] is 9");
  EXPECT_EQ(InWordsOfFlags("tenant names a tenant"), "--tenant names a tenant");
  EXPECT_EQ(InWordsOfFlags("model: no such"), "--model: no such");
}

TEST(FlagWords, OtherMessagesStay) {
  for (const char* message : {"model name 'x' must match", "the prompt is empty", "n", "",
                              "--top-p is wrong", "chat.messages[0] is empty", "model", "1 is 2"}) {
    EXPECT_EQ(InWordsOfFlags(message), message);
  }
}

}  // namespace
}  // namespace tutti::client
