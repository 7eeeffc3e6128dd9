// Answers drawn at random from the grammars of calls, which our own parsers read back: each call is
// of one of the functions, with arguments that its schema allows, and nothing is left over.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gateway/openai/generation_request.h"
#include "gateway/parse/answer_testing.h"
#include "gateway/parse/value_text.h"
#include "grammar/grammar_testing.h"
#include "grammar/json_tree.h"
#include "grammar/schema_values.h"

namespace tutti::gateway {
namespace {

constexpr ToolForm kForms[] = {ToolForm::kHermes, ToolForm::kQwenXml, ToolForm::kLlama3,
                               ToolForm::kChatGlm3};

// Schemas of arguments by the function's name.
const std::map<std::string, std::string> kSchemas = {
    {"get_weather", R"({"type":"object","properties":{
        "city":{"type":"string","description":"<tool_call>"},
        "days":{"type":"integer","minimum":1,"maximum":14},
        "unit":{"type":"string","enum":["celsius","fahrenheit"]},
        "note":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},
        "exact":{"type":"boolean"},"share":{"type":"number","minimum":0,"maximum":1}},
        "required":["city","days","unit"],"additionalProperties":false})"},
    {"write_file", R"({"type":"object","properties":{
        "path":{"type":"string","pattern":"^[a-z/]{1,12}$"},
        "when":{"type":"string","format":"date"},
        "lines":{"type":"array","items":{"type":"string","maxLength":12},"maxItems":3},
        "mode":{"const":"w"},"key":{"enum":["a","</parameter>",7,null]},
        "tree":{"$ref":"#/$defs/tree"}},
        "required":["path","lines","tree"],"additionalProperties":false,
        "$defs":{"tree":{"type":"object","properties":{"name":{"type":"string","maxLength":4},
          "below":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]}},
          "required":["name","below"],"additionalProperties":false}}})"},
    {"now", R"({"type":"object","properties":{},"additionalProperties":false})"},
};

std::string ToolsText(bool strict) {
  std::string tools;
  for (const auto& [name, schema] : kSchemas) {
    absl::StrAppend(&tools, tools.empty() ? "" : ",", R"({"type":"function","function":{"name":")",
                    name, R"(","strict":)", strict ? "true" : "false", R"(,"parameters":)", schema,
                    "}}");
  }
  return "[" + tools + "]";
}

// The request with these fields, as it is asked of a model of the form.
GenerationRequest Asked(ToolForm form, const std::string& fields, bool strict = true,
                        ReasoningForm reasoning = ReasoningForm::kNone) {
  const std::string text = absl::StrCat(R"({"messages":[{"role":"user","content":"Hi"}],"tools":)",
                                        ToolsText(strict), fields, "}");
  auto read = ReadChatRequest(Json::parse(text), text);
  if (const auto* error = std::get_if<ApiError>(&read)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  auto request = std::get<GenerationRequest>(std::move(read));
  const auto error = SetParse({}, {.tools = form, .reasoning = reasoning}, &request);
  EXPECT_FALSE(error.has_value()) << error->message;
  return request;
}

bool Satisfies(const std::string& schema, const std::string& json) {
  grammar::BuildWork work;
  auto source = grammar::SchemaSource::Parse(schema, &work);
  const auto value = grammar::ParseJsonTree(json, &work);
  if (!source.ok() || !value.ok()) return false;
  grammar::SchemaValues values(&*source);
  const auto admits = values.Admits(source->root(), *value, /*alone=*/false);
  return admits.ok() && *admits;
}

// Draws texts byte by byte; what ends something more often than chance would.
class CallWalk {
 public:
  explicit CallWalk(const std::string& ebnf)
      : automaton_(std::make_shared<grammar::Automaton>(
            grammar::MakeGrammar(grammar::SourceKind::kEbnf, ebnf),
            grammar::ByteTokens(kPieces, kMarks))) {}

  // The text, and whether it has ended.
  std::pair<std::string, bool> Draw(Random* random) {
    constexpr int kStepsMax = 600;
    grammar::Matcher matcher(automaton_);
    std::string text;
    for (int step = 0; step < kStepsMax && !matcher.ended(); ++step) {
      const std::vector<TokenId> allowed = grammar::AllowedIds(&matcher);
      if (allowed.empty()) {
        ADD_FAILURE() << "nothing may follow " << text;
        return {text, false};
      }
      const TokenId id = Choose(allowed, random);
      EXPECT_TRUE(matcher.AcceptToken(id).ok());
      const auto more = static_cast<size_t>(id) - 256;
      if (id < 256) {
        text += static_cast<char>(id);
      } else if (id != grammar::kEndOfTest) {
        text += more < kPieces.size() ? kPieces[more] : kMarks[more - kPieces.size()];
      }
    }
    return {text, matcher.ended()};
  }

 private:
  static TokenId Choose(const std::vector<TokenId>& allowed, Random* random) {
    const auto one_of = [random](const std::vector<TokenId>& ids) {
      return ids[static_cast<size_t>(random->Uniform() * static_cast<double>(ids.size()))];
    };
    std::vector<TokenId> ends;
    for (const TokenId id : allowed) {
      const bool ends_something =
          id >= 256 || std::string_view("\"{}]<,").find(static_cast<char>(id)) != std::string::npos;
      if (ends_something) ends.push_back(id);
    }
    return !ends.empty() && random->Chance(0.4) ? one_of(ends) : one_of(allowed);
  }

  inline static const std::vector<std::string> kPieces = {
      "\n</parameter>", "</parameter>",         "</function>",
      "<tool_call>",    "\n<parameter=days>\n", "</tool_call>",
      "<function=now",  "{\"name\": \"now\", ", "now\n{"};
  // No call begins with one: not every vocabulary has them.
  inline static const std::vector<std::string> kMarks = {"<|python_tag|>", "<|assistant|>"};

  const std::shared_ptr<grammar::Automaton> automaton_;
};

// What every answer, cut or not, must be; the calls that are whole.
size_t CheckAnswer(const Answer& answer, const std::string& text, bool ended, bool exact) {
  size_t whole = 0;
  for (const auto& [name, arguments] : answer.calls) {
    const auto schema = kSchemas.find(name);
    EXPECT_NE(schema, kSchemas.end()) << text;
    const bool last = &name == &answer.calls.back().first;
    // With numbers beyond a double, and names that any arguments of XML may have twice.
    const bool is_json = IsNestedJson(arguments);
    if (!ended && last && !is_json) continue;
    EXPECT_TRUE(is_json) << text << "\nhas arguments " << arguments;
    EXPECT_TRUE(!exact || Satisfies(schema->second, arguments)) << text << "\nhas " << arguments;
    ++whole;
  }
  return whole;
}

void CheckWalks(ToolForm form, const GenerationRequest& request, bool must_call, size_t calls_max,
                bool exact = true) {
  constexpr int kWalks = 40;
  CallWalk walk(request.calls[0].grammar().ebnf());
  Random random(7);
  size_t ended = 0, calls = 0, with_text = 0;
  for (int i = 0; i < kWalks; ++i) {
    const auto [text, has_ended] = walk.Draw(&random);
    const Answer answer = Parse(*request.parse, {text});
    calls += CheckAnswer(answer, text, has_ended, exact);
    EXPECT_LE(answer.calls.size(), calls_max) << text;
    if (!has_ended) continue;
    ++ended;
    if (!answer.content.empty()) ++with_text;
    if (must_call) {
      EXPECT_EQ(answer.content, "") << text;
      EXPECT_FALSE(answer.calls.empty()) << text;
    }
    std::vector<std::string_view> bytes;
    for (const char& c : text) bytes.emplace_back(&c, 1);
    EXPECT_EQ(Parse(*request.parse, bytes), answer) << text;
  }
  EXPECT_GT(ended, kWalks / 4u) << "form " << static_cast<int>(form);
  EXPECT_GT(calls, must_call ? kWalks / 4u : 0u) << "form " << static_cast<int>(form);
  EXPECT_EQ(with_text > 0, !must_call) << "form " << static_cast<int>(form);
}

TEST(CallWalks, RequiredCallsAreReadBack) {
  for (const ToolForm form : kForms) {
    const GenerationRequest request = Asked(form, R"(,"tool_choice":"required")");
    CheckWalks(form, request, /*must_call=*/true, form == ToolForm::kChatGlm3 ? 1 : 128);
    const GenerationRequest one =
        Asked(form, R"(,"tool_choice":"required","parallel_tool_calls":false)");
    CheckWalks(form, one, /*must_call=*/true, 1);
  }
}

TEST(CallWalks, CallsByNameAreReadBack) {
  for (const ToolForm form : kForms) {
    for (const auto& [name, schema] : kSchemas) {
      const GenerationRequest request =
          Asked(form, absl::StrCat(R"(,"tool_choice":{"type":"function","function":{"name":")",
                                   name, R"("}})"));
      CallWalk walk(request.calls[0].grammar().ebnf());
      Random random(5);
      int ended = 0;
      for (int i = 0; i < 12; ++i) {
        const auto [text, has_ended] = walk.Draw(&random);
        const Answer answer = Parse(*request.parse, {text});
        CheckAnswer(answer, text, has_ended, /*exact=*/true);
        if (!has_ended) continue;
        ++ended;
        ASSERT_EQ(answer.calls.size(), 1u) << text;
        EXPECT_EQ(answer.calls[0].first, name);
      }
      EXPECT_GT(ended, 2) << name << " in form " << static_cast<int>(form);
    }
  }
}

TEST(CallWalks, StrictFunctionsUnderAutoAreReadBackBehindText) {
  for (const ToolForm form : kForms) {
    CheckWalks(form, Asked(form, ""), /*must_call=*/false, 128);
  }
}

TEST(CallWalks, FunctionsThatAreNotStrictHaveAnyObject) {
  for (const ToolForm form : kForms) {
    CheckWalks(form, Asked(form, R"(,"tool_choice":"required")", /*strict=*/false),
               /*must_call=*/true, 128, /*exact=*/false);
  }
}

TEST(CallWalks, CallsOrJsonOfTheFormat) {
  const std::string format = R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x",
      "schema":{"type":"object","properties":{"answer":{"type":"integer"}},
                "required":["answer"],"additionalProperties":false}}})";
  for (const ToolForm form : kForms) {
    const GenerationRequest request = Asked(form, format, /*strict=*/false);
    CallWalk walk(request.calls[0].grammar().ebnf());
    Random random(3);
    int json = 0, calls = 0;
    for (int i = 0; i < 100; ++i) {
      const auto [text, has_ended] = walk.Draw(&random);
      if (!has_ended) continue;
      const Answer answer = Parse(*request.parse, {text});
      ASSERT_NE(answer.content.empty(), answer.calls.empty()) << text;
      ++(answer.calls.empty() ? json : calls);
      if (!answer.calls.empty()) continue;
      EXPECT_TRUE(Json::parse(answer.content)["answer"].is_number()) << text;
    }
    EXPECT_GT(json, 5);
    EXPECT_GT(calls, 5);
  }
}

// The grammar begins behind the reasoning, in which a call is none.
TEST(CallWalks, ReasoningEndsAtItsMarkOnly) {
  const GenerationRequest request = Asked(ToolForm::kHermes, R"(,"tool_choice":"required")",
                                          /*strict=*/true, ReasoningForm::kThink);
  const Answer answer = Parse(
      *request.parse, {"<think>\nI <tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call> "
                       "it.</think>\n \t<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n"
                       "</tool_call>"});
  EXPECT_EQ(answer.reasoning, "I <tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call> it.");
  EXPECT_EQ(answer.content, "");
  ASSERT_EQ(answer.calls.size(), 1u);
}

}  // namespace
}  // namespace tutti::gateway
