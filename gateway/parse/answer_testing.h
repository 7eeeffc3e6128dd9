// Answers as a client joins them from the pieces, and outputs cut at every place.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/json_text.h"
#include "gateway/parse/answer_parser.h"

namespace tutti::gateway {

inline const Functions kFunctions = {
    {"get_weather",
     {{"city", {}},
      {"days", {.types = {ValueTypes::Type::kNumber}}},
      {"metric", {.types = {ValueTypes::Type::kBoolean}}}}},
    {"write_file", {{"path", {}}, {"lines", {.types = {ValueTypes::Type::kArray}}}}},
    {"now", {}},
};

inline ParseOptions Options(ToolForm tools, ReasoningForm reasoning = ReasoningForm::kNone) {
  return {.form = {.tools = tools, .reasoning = reasoning}, .functions = kFunctions};
}

// The answer that a client joins from the pieces.
struct Answer {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
  bool has_calls = false;
  bool operator==(const Answer&) const = default;
};

inline void PrintTo(const Answer& answer, std::ostream* out) {
  *out << "content '" << answer.content << "' reasoning '" << answer.reasoning << "'";
  for (const auto& [name, arguments] : answer.calls) *out << " " << name << "(" << arguments << ")";
  *out << (answer.has_calls ? " complete" : "");
}

inline void Take(const AnswerPieces& pieces, Answer* answer) {
  for (const AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case AnswerPiece::Kind::kContent:
        answer->content += piece.text;
        break;
      case AnswerPiece::Kind::kReasoning:
        answer->reasoning += piece.text;
        break;
      case AnswerPiece::Kind::kCall:
        ASSERT_EQ(piece.call, answer->calls.size());
        answer->calls.emplace_back(piece.text, "");
        break;
      case AnswerPiece::Kind::kArguments:
        ASSERT_EQ(piece.call + 1, answer->calls.size());
        answer->calls.back().second += piece.text;
        break;
    }
  }
}

inline Answer Parse(const ParseOptions& options, const std::vector<std::string_view>& parts) {
  AnswerParser parser(std::make_shared<const ParseOptions>(options));
  Answer answer;
  for (const std::string_view part : parts) Take(parser.Feed(part), &answer);
  Take(parser.Finish(), &answer);
  answer.has_calls = parser.has_calls();
  return answer;
}

// The parse of the text, which is that of its parts, wherever it is cut.
inline Answer ParseCut(const ParseOptions& options, std::string_view text) {
  const Answer whole = Parse(options, {text});
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(Parse(options, bytes), whole) << text;
  constexpr size_t kShort = 120;
  for (size_t i = 1; i < text.size(); ++i) {
    EXPECT_EQ(Parse(options, {text.substr(0, i), text.substr(i)}), whole) << text << " at " << i;
    for (size_t j = i + 1; j < text.size() && text.size() <= kShort; ++j) {
      EXPECT_EQ(Parse(options, {text.substr(0, i), text.substr(i, j - i), text.substr(j)}), whole)
          << text << " at " << i << " and " << j;
    }
  }
  if (whole.has_calls) {
    EXPECT_TRUE(Json::accept(whole.calls.front().second)) << whole.calls.front().second;
  }
  return whole;
}

struct Recorded {
  const char* text;
  Answer answer;
};

inline void Check(const ParseOptions& options, const std::vector<Recorded>& outputs) {
  for (const Recorded& output : outputs) EXPECT_EQ(ParseCut(options, output.text), output.answer);
}

// Nothing in it is a call: all of it is content.
inline void CheckIsText(const ParseOptions& options, const std::vector<std::string>& outputs) {
  for (const std::string& output : outputs) {
    EXPECT_EQ(ParseCut(options, output), (Answer{output, "", {}, false}));
  }
}

}  // namespace tutti::gateway
