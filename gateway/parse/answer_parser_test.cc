#include "gateway/parse/answer_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/limits.h"
#include "gateway/parse/answer_testing.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = AnswerPiece::Kind;

TEST(Reasoning, IsParted) {
  Check(Options(ToolForm::kNone, ReasoningForm::kThink),
        {
            {"<think>\nHm.\n</think>\n\n42", {"42", "Hm.\n", {}, false}},
            {"\n<think>\n\n</think>\n\n42", {"42", "", {}, false}},
            {"42 <think> no", {"42 <think> no", "", {}, false}},
            {"a </think> b", {"a </think> b", "", {}, false}},
            {"<think>Hm</think>a</think>b</thin", {"ab</thin", "Hm", {}, false}},
            {"<think>never ends </thi", {"", "never ends </thi", {}, false}},
            {"<thi", {"<thi", "", {}, false}},
            {"\n\n", {"\n\n", "", {}, false}},
        });
  Check(Options(ToolForm::kNone, ReasoningForm::kThinkBegun),
        {
            {"Hm.\n</think>\n\n42", {"42", "Hm.\n", {}, false}},
            {"<think>\nHm.</think>42", {"42", "Hm.", {}, false}},
            {"Hm <think> ", {"", "Hm <think> ", {}, false}},
        });
}

TEST(Reasoning, GoesBeforeCalls) {
  const Answer answer{"", "Hm.\n", {{"now", "{}"}}, true};
  const char* call = "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
  for (const std::string middle : {"\n</think>\n\n", "\n"}) {
    EXPECT_EQ(
        ParseCut(Options(ToolForm::kHermes, ReasoningForm::kThinkBegun), "Hm." + middle + call),
        answer);
  }
  // A tag that is a value.
  EXPECT_EQ(ParseCut(Options(ToolForm::kHermes, ReasoningForm::kThink),
                     "<think>a</think></think><tool_call>{\"name\":\"get_weather\",\"arguments\":"
                     "{\"city\":\"</think>\"}}</tool_call>"),
            (Answer{"", "a", {{"get_weather", "{\"city\":\"</think>\"}"}}, true}));
}

TEST(AnswerParser, LeavesOutWhatIsNotWanted) {
  ParseOptions options = Options(ToolForm::kHermes, ReasoningForm::kThink);
  options.one_call_only = true;
  options.tells_reasoning = false;
  const std::string call = "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
  EXPECT_EQ(ParseCut(options, "<think>Hm</think>a" + call + call + "b"),
            (Answer{"ab", "", {{"now", "{}"}}, true}));
}

TEST(AnswerParser, HoldsBackNothingButWhatMayBecomeATag) {
  const auto options =
      std::make_shared<const ParseOptions>(Options(ToolForm::kHermes, ReasoningForm::kThink));
  AnswerParser parser(options);
  const auto feed = [&](const std::string& text) {
    Answer answer;
    Take(parser.Feed(text), &answer);
    return answer;
  };
  EXPECT_EQ(feed("<think>").reasoning, "");
  EXPECT_EQ(feed("so").reasoning, "so");
  EXPECT_EQ(feed("</think>ab").content, "ab");
  EXPECT_EQ(feed("c <").content, "c ");
  EXPECT_EQ(feed(" d").content, "< d");
  EXPECT_THAT(feed("<tool_call>{\"name\":\"get_weather\"").calls, IsEmpty());
  const AnswerPieces begun = parser.Feed(",\"arguments\":{\"");
  EXPECT_THAT(begun, ElementsAre(AnswerPiece{Kind::kCall, "get_weather", 0},
                                 AnswerPiece{Kind::kArguments, "{\"", 0}));
  EXPECT_THAT(parser.Feed("ci"), ElementsAre(AnswerPiece{Kind::kArguments, "ci", 0}));
  EXPECT_THAT(parser.Feed("ty\":\"P"), ElementsAre(AnswerPiece{Kind::kArguments, "ty\":\"P", 0}));
}

// A megabyte that never ends: what is held is bounded, and nothing is lost.
TEST(AnswerParser, HoldsLittle) {
  const std::string filling(1 << 20, 'x'), blanks(1 << 20, ' '), digits(1 << 20, '7');
  const std::pair<ToolForm, std::string> outputs[] = {
      {ToolForm::kHermes, "<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":\"" + filling},
      {ToolForm::kHermes, "<tool_call>{\"arguments\":{\"a\":\"" + filling},
      {ToolForm::kHermes, "<tool_call>{\"name\":\"" + filling},
      {ToolForm::kHermes, "<tool_call>" + blanks},
      {ToolForm::kHermes, "<tool_call>{\"name\":\"now\",\"arguments\":{}}" + blanks},
      {ToolForm::kQwenXml, "<function=" + filling},
      {ToolForm::kQwenXml, "<function=get_weather><parameter=" + filling},
      {ToolForm::kQwenXml, "<function=get_weather><parameter=days>" + digits},
      {ToolForm::kQwenXml, "<function=get_weather>" + blanks},
      {ToolForm::kLlama3, blanks},
      {ToolForm::kLlama3, "{\"parameters\":{\"a\":" + digits},
      {ToolForm::kLlama3, "{" + blanks},
      {ToolForm::kChatGlm3, "now" + blanks},
      {ToolForm::kChatGlm3, "now\n{" + blanks},
      {ToolForm::kChatGlm3, "now\n```python\ntool_call(" + filling},
      {ToolForm::kChatGlm3, "now\n```python\ntool_call(a='" + filling},
  };
  for (const auto& [form, text] : outputs) {
    AnswerParser parser(std::make_shared<const ParseOptions>(Options(form, ReasoningForm::kThink)));
    size_t said = 0, most_held = 0;
    const auto count = [&](const AnswerPieces& pieces) {
      for (const AnswerPiece& piece : pieces) said += piece.text.size();
    };
    for (size_t at = 0; at < text.size(); at += 4096) {
      count(parser.Feed(std::string_view(text).substr(at, 4096)));
      most_held =
          std::max(most_held, std::min(text.size(), at + 4096) - std::min(text.size(), said));
    }
    count(parser.Finish());
    EXPECT_LE(most_held, 2 * kHeldBytesMax) << text.substr(0, 60);
    EXPECT_GE(said + 100, text.size()) << text.substr(0, 60);
  }
}

TEST(AnswerParser, EndsCallsWhenThereAreTooMany) {
  std::string text;
  for (size_t i = 0; i <= kCallsPerOutputMax; ++i) {
    text += "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
  }
  const Answer answer = Parse(Options(ToolForm::kHermes), {text});
  EXPECT_EQ(answer.calls.size(), kCallsPerOutputMax);
  EXPECT_EQ(answer.content, "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>");
}

Answer Whole(const ParseOptions& options, std::string_view text) {
  const WholeParse parse =
      ParseWhole(std::make_shared<const ParseOptions>(options), /*in_reasoning=*/false, text);
  Answer answer;
  Take(parse.pieces, &answer);
  answer.has_calls = parse.has_calls;
  return answer;
}

// What a stream has said stays said; a whole answer has a call or its text, and no part of both.
TEST(ParseWhole, HasBrokenCallsAsTheyWereWritten) {
  const std::string good = "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
  const std::string broken[] = {
      R"(<tool_call>{"name": "get_weather", "arguments": {"city": Paris}}</tool_call>)",
      R"(<tool_call>{"name": "get_weather", "arguments": {"city": 'Paris'}}</tool_call>)",
      R"(<tool_call>{"name": "get_weather", "arguments": {"days": 3,}}</tool_call>)",
      R"(<tool_call>{"name": "get_weather", "arguments": {"metric": True}}</tool_call>)",
      R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Par)",
  };
  const ParseOptions hermes = Options(ToolForm::kHermes);
  for (const std::string& text : broken) {
    EXPECT_EQ(Whole(hermes, text), (Answer{text, "", {}, false}));
    const std::string before = "I look.\n" + good + "\n";
    EXPECT_EQ(Whole(hermes, before + text), (Answer{"I look." + text, "", {{"now", "{}"}}, true}));
  }
  EXPECT_EQ(Whole(hermes, broken[0] + "\n" + good), (Answer{broken[0], "", {{"now", "{}"}}, true}));
  std::string many;
  for (size_t i = 0; i < 2 * kBrokenCallsMax; ++i) many += broken[0];
  EXPECT_EQ(Whole(hermes, many), (Answer{many, "", {}, false}));
  const std::string xml = "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</par";
  EXPECT_EQ(Whole(Options(ToolForm::kQwenXml), xml), (Answer{xml, "", {}, false}));
  const std::string llama = R"({"name": "get_weather", "parameters": {"city": Paris}})";
  EXPECT_EQ(Whole(Options(ToolForm::kLlama3), llama), (Answer{llama, "", {}, false}));
  const std::string glm = "get_weather\n```python\ntool_call(city=Paris)\n```";
  EXPECT_EQ(Whole(Options(ToolForm::kChatGlm3), glm), (Answer{glm, "", {}, false}));
}

}  // namespace
}  // namespace tutti::gateway
