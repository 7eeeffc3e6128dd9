#include "client/load/report.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "client/load/questions.h"

namespace tutti::client {
namespace {

TEST(Questions, OfConversationsLikeShareGPTs) {
  const auto read = ParseQuestions(
      R"([{"id": "a", "conversations": [{"from": "human", "value": "Why?"},
                                        {"from": "gpt", "value": "So."},
                                        {"from": "human", "value": "And?"}]},
          {"id": "b", "conversations": [{"from": "gpt", "value": "So."}]},
          {"id": "c", "conversations": []},
          {"messages": [{"content": "1 + 1 ="}], "answer": "2"}])",
      "file");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].text, "Why?");
  EXPECT_EQ((*read)[0].answer, "So.");
  EXPECT_FALSE((*read)[0].is_known);
  EXPECT_TRUE((*read)[1].is_known);
  EXPECT_FALSE(ParseQuestions(R"([{"conversations": [{"from": "gpt", "value": "x"}]}])", "f").ok());
}

TEST(Questions, OfLinesAndOfMessagesWithRoles) {
  const auto read = ParseQuestions(
      R"({"messages": [{"role": "system", "content": "Brief."}, )"
      R"({"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]})"
      "\n\n"
      R"({"conversations": [{"role": "user", "content": "How?"}, )"
      R"({"role": "assistant", "content": "."}]})"
      "\n",
      "file");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].text, "Why?");
  EXPECT_EQ((*read)[0].answer, "So.");
  EXPECT_EQ((*read)[1].text, "How?");
  EXPECT_FALSE((*read)[1].is_known);
  EXPECT_EQ(ParseQuestions("{}\n[]\n", "file").status().message(),
            "file:2: this is not a JSON object");
  EXPECT_EQ(ParseQuestions("\n \n", "file").status().message(), "file has no questions");
}

TEST(LoadReport, SaysWhatWasAskedAgain) {
  LoadReport report(Slo{});
  report.Add(Turn{.status = absl::OkStatus(), .refusals = 3});
  report.Close(std::chrono::seconds(1), false, 1);
  EXPECT_NE(report.ToText().find("asked again after a refusal, as the service said: 3 times"),
            std::string::npos)
      << report.ToText();
  EXPECT_EQ(report.ToJson()["refusals"], 3);
}

TEST(LoadReport, HasTheNamesOfVllm) {
  LoadReport report(Slo{});
  Turn turn;
  turn.ids = {1, 2, 3};
  turn.prompt_tokens = 10;
  turn.first_token = std::chrono::milliseconds(100);
  turn.token_gap = std::chrono::milliseconds(20);
  turn.gaps = {{std::chrono::milliseconds(20), 1}, {std::chrono::milliseconds(20), 1}};
  turn.total = std::chrono::milliseconds(140);
  // The third token comes in the load's second second.
  turn.due = std::chrono::milliseconds(870);
  report.Add(turn);
  Turn failed;
  failed.status = absl::UnavailableError("gone");
  report.Add(failed);
  report.Close(std::chrono::seconds(2), false, 5);
  const std::string text = report.ToVllmText({.concurrency = 8});
  for (const char* line : {"Successful requests:                     1         \n",
                           "Failed requests:                         1         \n",
                           "Maximum request concurrency:             8         \n",
                           "Peak output token throughput (tok/s):    2.00      \n",
                           "Peak concurrent requests:                5.00      \n",
                           "Benchmark duration (s):                  2.00      \n",
                           "Total input tokens:                      10        \n",
                           "Output token throughput (tok/s):         1.50      \n",
                           "============ Serving Benchmark Result ============\n",
                           "---------------Time to First Token----------------\n",
                           "-----Time per Output Token (excl. 1st token)------\n",
                           "---------------Inter-token Latency----------------\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_NE(text.find("Mean TPOT (ms):                          20."), std::string::npos) << text;
  EXPECT_EQ(text.find("Request rate configured"), std::string::npos) << text;
  EXPECT_NE(report.ToVllmText({.rate = 2.5})
                .find("Request rate configured (RPS):           2.50      \n"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::client
