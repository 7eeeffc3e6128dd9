#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "gateway/openai/choice_text.h"
#include "gateway/openai/generation_request.h"
#include "grammar/grammar_testing.h"

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTwoTools[] = R"([{"type": "function", "function": {"name": "f", "strict": %s,
    "parameters": {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type":
    "integer"}}, "required": ["b", "a"], "additionalProperties": false}}},
    {"type": "function", "function": {"name": "g"}}])";

std::string TwoTools(const char* strict) {
  std::string tools = kTwoTools;
  return tools.replace(tools.find("%s"), 2, strict);
}

std::variant<GenerationRequest, ApiError> ReadTools(const std::string& tools,
                                                    const std::string& more) {
  const std::string text = absl::StrCat(R"({"messages": [], "tools": )", tools, more, "}");
  return ReadChatRequest(Json::parse(text), text);
}

// What the request is refused for by its reader or by the model's form; else its grammar.
std::string OutcomeOf(const std::string& tools, const std::string& more,
                      ToolForm form = ToolForm::kHermes) {
  auto read = ReadTools(tools, more);
  if (const auto* error = std::get_if<ApiError>(&read)) return error->param;
  auto& request = std::get<GenerationRequest>(read);
  if (const auto error = SetParse({}, {.tools = form}, &request)) return error->param;
  return request.calls[0].grammar().ebnf();
}

constexpr char kGrammarOfF[] =
    "root ::= calls\ncalls ::= call\ncall ::= \"<tool_call>\\n\" (\"{\\\"name\\\": \\\"f\\\", "
    "\\\"arguments\\\": \" %json ";

TEST(ToolChoice, BothFormsOfTheApiNameAFunction) {
  const std::string nested = OutcomeOf(
      TwoTools("null"), R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_THAT(nested, StartsWith(kGrammarOfF));
  EXPECT_THAT(nested, HasSubstr(R"("properties":{"b":{"type":"string"},"a")"));
  EXPECT_EQ(OutcomeOf(TwoTools("null"), R"(, "tool_choice": {"type": "function", "name": "f"})"),
            nested);
}

TEST(ToolChoice, AllowedToolsLeaveTheOthersOut) {
  const std::string inside = R"("mode": "required", "tools": [{"type": "function",
                               "function": {"name": "g"}}])";
  const std::string only_g =
      OutcomeOf(TwoTools("true"),
                R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {)" + inside + "}}");
  EXPECT_THAT(only_g, HasSubstr(R"(\"g\")"));
  EXPECT_THAT(only_g, testing::Not(HasSubstr(R"(\"f\")")));
  EXPECT_EQ(
      OutcomeOf(TwoTools("true"), R"(, "tool_choice": {"type": "allowed_tools", )" + inside + "}"),
      only_g);
  const std::string may = OutcomeOf(TwoTools("false"), R"(, "tool_choice": {"type":
      "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]})");
  EXPECT_THAT(may, StartsWith("root ::= (%without \"<tool_call>\") (calls)?\n"));
}

TEST(ToolChoice, IsRefusedByName) {
  const auto refused = [](const std::string& choice) {
    return OutcomeOf(TwoTools("null"), R"(, "tool_choice": )" + choice);
  };
  EXPECT_EQ(refused("\"always\""), "tool_choice");
  EXPECT_EQ(refused("3"), "tool_choice");
  EXPECT_EQ(refused(R"({"type": "custom", "custom": {"name": "f"}})"), "tool_choice.type");
  EXPECT_EQ(refused(R"({"type": "function"})"), "tool_choice.name");
  EXPECT_EQ(refused(R"({"type": "function", "function": {}})"), "tool_choice.function.name");
  EXPECT_EQ(refused(R"({"type": "function", "function": {"name": "h"}})"), "tool_choice");
  EXPECT_EQ(refused(R"({"type": "allowed_tools", "mode": "none", "tools": []})"),
            "tool_choice.mode");
  EXPECT_EQ(refused(R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "x"}]})"),
            "tool_choice.tools[0].type");
  EXPECT_EQ(OutcomeOf("[]", R"(, "tool_choice": "required")"), "tool_choice");
  EXPECT_EQ(OutcomeOf(TwoTools("true"), R"(, "structured_outputs": {"regex": "a"})"),
            "structured_outputs.regex");
}

// Nothing is enforced that nobody asked for.
TEST(ToolFields, WithoutStrictOrChoiceThereIsNoGrammar) {
  EXPECT_EQ(OutcomeOf(TwoTools("false"), ""), "");
  EXPECT_EQ(OutcomeOf(TwoTools("null"), R"(, "tool_choice": "auto")"), "");
  EXPECT_EQ(OutcomeOf(TwoTools("true"), R"(, "tool_choice": "none")"), "");
  EXPECT_THAT(OutcomeOf(TwoTools("true"), ""), HasSubstr("required"));
  const std::string loose = OutcomeOf(TwoTools("false"), R"(, "tool_choice": "required")");
  EXPECT_THAT(loose, HasSubstr(R"(\"f\", \"arguments\": " %json {"type":"object"})"));
}

TEST(ToolFields, WhatNoGrammarCanSayIsRefusedByName) {
  const auto refused = [](const std::string& function, ToolForm form) {
    return OutcomeOf(R"([{"type": "function", "function": {)" + function + "}}]",
                     R"(, "tool_choice": "required")", form);
  };
  const auto parameters = [&](const std::string& schema, ToolForm form) {
    return refused(R"("name": "f", "parameters": )" + schema, form);
  };
  EXPECT_EQ(refused(R"("name": "a>b")", ToolForm::kHermes), "tools[0].function.name");
  EXPECT_EQ(parameters(R"({"type": "array"})", ToolForm::kHermes),
            "tools[0].function.parameters.type");
  EXPECT_THAT(parameters(R"({"properties": {}})", ToolForm::kHermes),
              HasSubstr(R"(%json {"type":"object","properties":{},"additionalProperties":false})"));
  for (const auto& [schema, path] :
       {std::pair(R"({"anyOf": [{}]})", "anyOf"),
        std::pair(R"({"minProperties": 1})", "minProperties"),
        std::pair(R"({"required": ["x"]})", "required"),
        std::pair(R"({"properties": {"a>": {}}})", "properties"),
        std::pair(R"({"properties": {"a": {"items": {"$ref": "#"}}}})", "properties.a")}) {
    EXPECT_EQ(parameters(schema, ToolForm::kQwenXml),
              std::string("tools[0].function.parameters.") + path);
    EXPECT_THAT(parameters(schema, ToolForm::kHermes), StartsWith("root"));
  }
}

TEST(ToolFields, TheServiceNamesTheFunctionAtFault) {
  auto read = ReadTools(TwoTools("true"), R"(, "response_format": {"type": "json_schema",
      "json_schema": {"name": "n", "schema": {}}})");
  ASSERT_TRUE(std::holds_alternative<GenerationRequest>(read));
  auto& request = std::get<GenerationRequest>(read);
  ASSERT_FALSE(SetParse({}, {.tools = ToolForm::kHermes}, &request).has_value());
  const std::string& ebnf = request.calls[0].grammar().ebnf();
  const auto param_at = [&](size_t byte) {
    return FromStatus(absl::InvalidArgumentError(absl::StrCat("grammar.ebnf: %json at byte ", byte,
                                                              ": /not: is not served")),
                      request.names, 0);
  };
  EXPECT_EQ(param_at(ebnf.find("%json {}")).param, "response_format.json_schema.schema");
  const ApiError f = param_at(ebnf.find("%json {\"type\":\"object\""));
  EXPECT_EQ(f.param, "tools[0].function.parameters");
  EXPECT_THAT(f.message, StartsWith("tools[0].function.parameters: "));
  EXPECT_THAT(f.message, HasSubstr("/not: is not served"));
  EXPECT_EQ(param_at(ebnf.rfind("%json")).param, "tools[1].function.parameters");
  EXPECT_EQ(
      FromStatus(absl::InvalidArgumentError("grammar has too many states"), request.names, 0).param,
      "tools");
}

// Each parameter of Qwen's XML needs all definitions: a body of 1 MB took gigabytes.
TEST(ToolFields, DefinitionsAreNotRepeatedWithoutEnd) {
  std::string properties, filler;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&properties, i == 0 ? "" : ",", "\"p", i, R"(":{"$ref":"#/$defs/d"})");
    absl::StrAppend(&filler, R"(,"n)", i, R"(":{"type":"integer","maximum":)", i, "}");
  }
  auto read = ReadTools(
      absl::StrCat(
          R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters":)",
          R"({"type":"object","properties":{)", properties, R"(},"$defs":{"d":{"type":"integer"})",
          filler, "}}}}]"),
      "");
  ASSERT_TRUE(std::holds_alternative<GenerationRequest>(read));
  auto& request = std::get<GenerationRequest>(read);
  size_t bytes = 0;
  for (const CallableFunction& one : request.wishes.callable) bytes += one.xml.size();
  EXPECT_LT(bytes, kRepeatedDefinitionsBytesMax);
  const auto error = SetParse({}, {.tools = ToolForm::kQwenXml}, &request);
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->message, HasSubstr("definitions that are too large"));
  EXPECT_THAT(error->param, StartsWith("tools[0].function.parameters.properties.p"));
}

// Each text that is written as it stands is compared with all others.
TEST(ToolFields, LongListsOfTextsAreJson) {
  for (const size_t count : {kRawListedValuesMax, kRawListedValuesMax + 1}) {
    std::string texts;
    for (size_t i = 0; i < count; ++i) absl::StrAppend(&texts, i == 0 ? "" : ",", "\"t", i, "\"");
    auto read = ReadTools(
        absl::StrCat(
            R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters":)",
            R"({"type":"object","properties":{"p":{"enum":[)", texts, "]}}}}}]"),
        "");
    ASSERT_TRUE(std::holds_alternative<GenerationRequest>(read));
    auto& request = std::get<GenerationRequest>(read);
    ASSERT_EQ(request.wishes.callable.size(), 1u);
    const std::string& xml = request.wishes.callable[0].xml;
    const bool is_json = xml.find("%json") != std::string::npos;
    EXPECT_EQ(is_json, count > kRawListedValuesMax);
    EXPECT_EQ(request.wishes.functions["f"]["p"].is_json, is_json);
  }
}

TEST(ToolFields, AFunctionIsNamedOnce) {
  const auto read = ReadTools(
      R"([{"type": "function", "function": {"name": "f", "strict": true}},
          {"type": "function", "function": {"name": "f", "strict": true}}])",
      "");
  ASSERT_TRUE(std::holds_alternative<ApiError>(read));
  EXPECT_EQ(std::get<ApiError>(read).param, "tools[1].function.name");
}

TEST(ToolFields, ANamedCallEndsAsOpenAisDoes) {
  for (const auto& [choice, reason] :
       {std::pair(R"("required")", "tool_calls"),
        std::pair(R"({"type": "function", "function": {"name": "g"}})", "stop")}) {
    auto read = ReadTools(TwoTools("null"), std::string(R"(, "tool_choice": )") + choice);
    auto& request = std::get<GenerationRequest>(read);
    ASSERT_FALSE(SetParse({}, {.tools = ToolForm::kHermes}, &request).has_value());
    ChoiceText text(request.parse, false, "chatcmpl-1", 0);
    v1::GenerateResponse message;
    message.set_text("<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>");
    text.Take(message);
    EXPECT_STREQ(text.FinishReason(v1::FINISH_REASON_STOP), reason);
    EXPECT_STREQ(text.FinishReason(v1::FINISH_REASON_LENGTH), "length");
  }
}

}  // namespace
}  // namespace tutti::gateway
