#include "gateway/kept_messages.h"

#include <gtest/gtest.h>

namespace tutti::gateway {
namespace {

v1::GenerateResponse TextMessage(uint32_t output, const std::string& text) {
  v1::GenerateResponse message;
  message.set_output(output);
  message.set_text(text);
  message.add_tokens()->set_id(7);
  return message;
}

TEST(KeptMessages, MakeFewOfMany) {
  KeptMessages kept(1 << 20);
  for (int i = 0; i < 200; ++i) {
    v1::GenerateResponse message = TextMessage(i % 2, "ab");
    if (i == 0) message.mutable_started()->set_prompt_tokens(3);
    if (i >= 198) message.mutable_finish()->set_reason(v1::FINISH_REASON_LENGTH);
    ASSERT_TRUE(kept.Add(0, message));
  }
  int messages = 0, tokens = 0, started = 0, finished = 0;
  std::string texts[2];
  kept.ForEach([&](size_t, const v1::GenerateResponse& message) {
    EXPECT_EQ(message.has_started(), messages++ == 0);
    started += message.has_started();
    finished += message.has_finish();
    tokens += message.tokens_size();
    texts[message.output()] += message.text();
  });
  EXPECT_LT(messages, 8);
  EXPECT_EQ(tokens, 200);
  EXPECT_EQ(started, 1);
  EXPECT_EQ(finished, 2);
  EXPECT_EQ(texts[1].size(), 200u);
}

TEST(KeptMessages, AreForgottenWhenTheyAreTooMany) {
  KeptMessages kept(1000);
  bool all = true;
  for (int i = 0; i < 1000 && all; ++i) all = kept.Add(0, TextMessage(0, "text"));
  EXPECT_FALSE(all);
  EXPECT_EQ(kept.bytes(), 0u);
  kept.ForEach([](size_t, const v1::GenerateResponse&) { FAIL(); });
}

}  // namespace
}  // namespace tutti::gateway
