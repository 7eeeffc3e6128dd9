#include "gateway/grammar_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ReadFields {
  v1::Grammar grammar;
  std::string path;
  std::string refused;  // field
  std::string message;
};

ReadFields FieldsOf(const std::string& text) {
  const Json body = Json::parse(text);
  FieldReader fields(body, "");
  v1::GenerateRequest call;
  ReadFields read;
  read.path = ReadGrammarFields(&fields, text, &call);
  fields.RefuseOthers();
  read.grammar = call.grammar();
  if (!fields.error().has_value()) return read;
  EXPECT_THAT(fields.error()->message, HasSubstr(fields.error()->param));
  read.refused = fields.error()->param;
  read.message = fields.error()->message;
  return read;
}

TEST(GrammarFields, ResponseFormats) {
  EXPECT_EQ(FieldsOf("{}").path, "");
  const ReadFields text = FieldsOf(R"({"response_format": {"type": "text"}})");
  EXPECT_EQ(text.refused + text.path, "");
  EXPECT_EQ(text.grammar.source_case(), v1::Grammar::SOURCE_NOT_SET);
  const ReadFields object = FieldsOf(R"({"response_format": {"type": "json_object"}})");
  EXPECT_TRUE(object.grammar.has_json_object());
  EXPECT_EQ(object.path, "response_format");
  // The order of the schema's members is that of the answer's.
  const ReadFields schema = FieldsOf(
      R"({"a": null, "response_format": {"type": "json_schema", "json_schema": {"name": "n",
          "description": "d", "strict": true, "schema": {"properties": {"b": {}, "a": {}}}}}})");
  EXPECT_EQ(schema.grammar.json_schema(),
            R"({"properties":{"b":{},"a":{}},"additionalProperties":false})");
  EXPECT_EQ(schema.path, "response_format.json_schema.schema");
  EXPECT_EQ(schema.grammar.whitespace(), v1::GRAMMAR_WHITESPACE_UNSPECIFIED);
}

TEST(GrammarFields, ResponseFormatsAreRefusedByName) {
  const auto refused = [](const std::string& format) {
    return FieldsOf(R"({"response_format": )" + format + "}").refused;
  };
  EXPECT_EQ(refused("\"json_object\""), "response_format");
  EXPECT_EQ(refused(R"({"type": "structural_tag"})"), "response_format.type");
  EXPECT_EQ(refused(R"({"type": "json_schema"})"), "response_format.json_schema");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"name": "n"}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"schema": "{}"}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"schema": {}, "x": 1}})"),
            "response_format.json_schema.x");
  EXPECT_EQ(refused(R"({"type": "json_object", "schema": {"type": "object"}})"),
            "response_format.schema");
}

TEST(GrammarFields, StructuredOutputsAsVllmNamesThem) {
  const auto read = [](const std::string& outputs) {
    return FieldsOf(R"({"structured_outputs": {)" + outputs + "}}");
  };
  EXPECT_EQ(read(R"("json": {"b": 1, "a": 2.0})").grammar.json_schema(), R"({"b":1,"a":2.0})");
  const std::string open = R"({"properties": {}})";
  const std::string closed = R"({"properties":{},"additionalProperties":false})";
  EXPECT_EQ(read("\"json\": " + open).grammar.json_schema(), closed);
  EXPECT_EQ(read(R"("json": "{\"properties\": {}}")").grammar.json_schema(), closed);
  const std::string disable = R"(, "disable_additional_properties": )";
  EXPECT_EQ(read("\"json\": " + open + disable + "true").grammar.json_schema(), closed);
  EXPECT_EQ(read("\"json\": " + open + disable + "false").grammar.json_schema(), open);
  EXPECT_EQ(read(R"("json": {})").path, "structured_outputs.json");
  EXPECT_EQ(read(R"("json": "{\"type\": \"null\"}")").grammar.json_schema(), R"({"type":"null"})");
  EXPECT_EQ(read(R"("regex": "a+", "json": null)").grammar.regex(), "a+");
  EXPECT_THAT(read(R"("choice": ["a", "b"])").grammar.choice().texts(), ElementsAre("a", "b"));
  EXPECT_EQ(read(R"("grammar": "root ::= \"x\"")").grammar.ebnf(), "root ::= \"x\"");
  EXPECT_TRUE(read(R"("json_object": true)").grammar.has_json_object());
  const ReadFields blanks = read(R"("regex": "a", "disable_any_whitespace": false)");
  EXPECT_EQ(blanks.grammar.whitespace(), v1::GRAMMAR_WHITESPACE_BOUNDED);
  EXPECT_EQ(read(R"("regex": "a", "disable_any_whitespace": true)").grammar.whitespace(),
            v1::GRAMMAR_WHITESPACE_UNSPECIFIED);
  EXPECT_EQ(read("").refused, "");
  EXPECT_EQ(read(R"("choice": "a")").refused, "structured_outputs.choice");
  EXPECT_EQ(read(R"("json": [])").refused, "structured_outputs.json");
  EXPECT_EQ(read(R"("regex": "a", "choice": ["a"])").refused, "structured_outputs");
  EXPECT_EQ(read(R"("json_object": false)").refused, "structured_outputs");
  EXPECT_EQ(read(R"("structural_tag": "{}")").refused, "structured_outputs.structural_tag");
  EXPECT_EQ(read(R"("regex": "a", "whitespace_pattern": " ")").refused,
            "structured_outputs.whitespace_pattern");
  EXPECT_EQ(read(R"("regex": "a", "disable_additional_properties": 1)").refused,
            "structured_outputs.disable_additional_properties");
}

TEST(GrammarFields, OnlyOneSaysWhatTheAnswerIs) {
  EXPECT_EQ(FieldsOf(R"({"response_format": {"type": "json_object"},
                         "structured_outputs": {"regex": "a"}})")
                .refused,
            "structured_outputs");
  const ReadFields both = FieldsOf(R"({"response_format": {"type": "json_object"},
                                       "structured_outputs": {"disable_any_whitespace": false}})");
  EXPECT_EQ(both.refused, "");
  EXPECT_TRUE(both.grammar.has_json_object());
  EXPECT_EQ(both.grammar.whitespace(), v1::GRAMMAR_WHITESPACE_BOUNDED);
}

// Where others ignore these, the answer is not what was asked for.
TEST(GrammarFields, OldNamesAndThoseOfOthersSayTheNewOnes) {
  for (const auto& [name, instead] : {std::pair("guided_json", "structured_outputs.json"),
                                      std::pair("guided_regex", "structured_outputs.regex"),
                                      std::pair("guided_choice", "structured_outputs.choice"),
                                      std::pair("guided_grammar", "structured_outputs.grammar"),
                                      std::pair("json_schema", "response_format"),
                                      std::pair("grammar", "structured_outputs.grammar"),
                                      std::pair("regex", "structured_outputs.regex"),
                                      std::pair("ebnf", "structured_outputs.grammar")}) {
    const ReadFields read = FieldsOf(std::string("{\"") + name + "\": \"x\"}");
    EXPECT_EQ(read.refused, name);
    EXPECT_THAT(read.message, HasSubstr(instead));
  }
  EXPECT_EQ(FieldsOf(R"({"guided_json": null})").refused, "");
}

TEST(GrammarFields, PathsOfTheService) {
  EXPECT_EQ(GrammarPath("grammar.json_schema", "text.format.schema"), "text.format.schema");
  EXPECT_EQ(GrammarPath("grammar.choice.texts[2]", "structured_outputs.choice"),
            "structured_outputs.choice[2]");
}

}  // namespace
}  // namespace tutti::gateway
