#include "gateway/parse/value_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/clock.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

Parameters ParametersOf(const Json& schema) {
  int64_t visits_left = kSchemaVisitsMax;
  return gateway::ParametersOf(schema, &visits_left);
}

// What a parameter of this schema, beside these definitions, makes of a text.
std::string Read(const std::string& schema, std::string_view text) {
  const Json arguments = {{"type", "object"},
                          {"$defs", Json::parse(R"({
                              "Level": {"enum": [1, 2, 3]},
                              "Point": {"type": "object", "properties": {"x": {"type": "number"}}},
                              "Maybe": {"anyOf": [{"$ref": "#/$defs/Level"}, {"type": "null"}]},
                              "Tree": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "array"}]},
                              "a/b~c": {"type": "boolean"},
                              "List": [{"type": "string"}, {"type": "integer"}]})")},
                          {"properties", {{"p", Json::parse(schema)}}}};
  return JsonOfValue(text, ParametersOf(arguments).at("p"));
}

TEST(ValueTypesTest, APlainType) {
  EXPECT_EQ(Read(R"({"type": "string"})", "5"), "\"5\"");
  EXPECT_EQ(Read(R"({"type": "string"})", " a\n"), "\" a\\n\"");
  EXPECT_EQ(Read(R"({"type": "integer"})", " 5\n"), "5");
  EXPECT_EQ(Read(R"({"type": "integer"})", "5.0"), "5.0");
  EXPECT_EQ(Read(R"({"type": "number"})", "-0.25e1"), "-0.25e1");
  EXPECT_EQ(Read(R"({"type": "number"})", "many"), "\"many\"");
  EXPECT_EQ(Read(R"({"type": "boolean"})", "True"), "true");
  EXPECT_EQ(Read(R"({"type": "array"})", "[1, \"a\"]"), "[1, \"a\"]");
  EXPECT_EQ(Read(R"({"type": "array"})", "{}"), "\"{}\"");
  EXPECT_EQ(Read(R"({"type": "object"})", "{\"a\": {}}"), "{\"a\": {}}");
  EXPECT_EQ(Read(R"({"type": "null"})", "None"), "null");
  EXPECT_EQ(Read(R"({"type": "number"})", "null"), "null") << "of a parameter that may be left out";
}

TEST(ValueTypesTest, SeveralTypesInTheirOrder) {
  EXPECT_EQ(Read(R"({"type": ["integer", "string"]})", "5"), "5");
  EXPECT_EQ(Read(R"({"type": ["integer", "string"]})", "5a"), "\"5a\"");
  EXPECT_EQ(Read(R"({"type": ["string", "integer"]})", "5"), "\"5\"");
  EXPECT_EQ(Read(R"({"type": ["string", "null"]})", "null"), "null");
  EXPECT_EQ(Read(R"({"type": ["string", "null"]})", "nullable"), "\"nullable\"");
  EXPECT_EQ(Read(R"({"type": ["boolean", "number", "string"]})", "1.5"), "1.5");
  EXPECT_EQ(Read(R"({"type": ["integer", "string"]})", "5.5"), "\"5.5\"");
}

TEST(ValueTypesTest, BranchesAndParts) {
  EXPECT_EQ(Read(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "null"), "null");
  EXPECT_EQ(Read(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "5"), "\"5\"");
  EXPECT_EQ(Read(R"({"oneOf": [{"type": "number"}, {"type": "array"}]})", "[2]"), "[2]");
  EXPECT_EQ(Read(R"({"allOf": [{"type": "number"}]})", "0.25"), "0.25");
  EXPECT_EQ(Read(R"({"allOf": [{"type": ["number", "string"]}, {"type": "string"}]})", "5"),
            "\"5\"");
  EXPECT_EQ(Read(R"({"allOf": [{"type": "number"}, {"type": "integer"}]})", "5"), "5");
  EXPECT_EQ(Read(R"({"type": "integer", "anyOf": [{"minimum": 3}, {"maximum": -3}]})", "5"), "5");
  // What contradicts itself allows nothing; the model's word stands.
  EXPECT_EQ(Read(R"({"allOf": [{"type": "number"}, {"type": "string"}]})", "5"), "5");
}

TEST(ValueTypesTest, References) {
  EXPECT_EQ(Read(R"({"$ref": "#/$defs/Level"})", "2"), "2");
  EXPECT_EQ(Read(R"({"$ref": "#/$defs/Maybe"})", "null"), "null");
  EXPECT_EQ(Read(R"({"$ref": "#/$defs/Maybe", "description": "x"})", "3"), "3");
  EXPECT_EQ(Read(R"({"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]})", "{\"x\": 1.5}"),
            "{\"x\": 1.5}");
  EXPECT_EQ(Read(R"({"$ref": "#/$defs/a~1b~0c"})", "false"), "false");
  EXPECT_EQ(Read(R"({"$ref": "#/$defs/List/1"})", "5"), "5");
  EXPECT_EQ(Read(R"({"$ref": "#/$defs/List/0"})", "5"), "\"5\"");
  for (const char* nowhere :
       {"#/$defs/None", "other.json#/a", "#/$defs/List/9", "#/$defs/List/x"}) {
    EXPECT_EQ(Read(std::string(R"({"$ref": ")") + nowhere + "\"}", "5"), "5") << nowhere;
  }
  EXPECT_EQ(Read(R"({"$ref": "#/$defs/Tree"})", "[]"), "[]");
}

TEST(ValueTypesTest, ListedValues) {
  EXPECT_EQ(Read(R"({"enum": ["a", "1", 2, null, true]})", "1"), "\"1\"");
  EXPECT_EQ(Read(R"({"enum": ["a", "1", 2, null, true]})", "2"), "2");
  EXPECT_EQ(Read(R"({"enum": ["a", "1", 2, null, true]})", "\na\n"), "\"a\"");
  EXPECT_EQ(Read(R"({"enum": ["a", "1", 2, null, true]})", "true"), "true");
  EXPECT_EQ(Read(R"({"enum": ["null"]})", "null"), "\"null\"");
  EXPECT_EQ(Read(R"({"const": 7})", "7"), "7");
  EXPECT_EQ(Read(R"({"const": "7"})", "7"), "\"7\"");
  EXPECT_EQ(Read(R"({"type": "string", "enum": ["1", "2"]})", "3"), "\"3\"");
}

TEST(ValueTypesTest, NoTypeIsWhatItsKeywordsAreAboutAndThenAnything) {
  EXPECT_EQ(Read(R"({"items": {"type": "string"}})", "[\"a\"]"), "[\"a\"]");
  EXPECT_EQ(Read(R"({"properties": {}})", "{}"), "{}");
  EXPECT_EQ(Read(R"({"minimum": 3})", "5"), "5");
  EXPECT_EQ(Read(R"({"minLength": 1})", "5"), "\"5\"");
  for (const char* any : {"{}", "true", R"({"description": "whatever"})"}) {
    EXPECT_EQ(Read(any, "5"), "5");
    EXPECT_EQ(Read(any, "[5]"), "[5]");
    EXPECT_EQ(Read(any, "five"), "\"five\"");
    EXPECT_EQ(Read(any, "null"), "null");
  }
}

TEST(ValueTypesTest, PropertiesByReferenceAndInParts) {
  const Parameters found = ParametersOf(Json::parse(R"({
      "$ref": "#/$defs/Own", "allOf": [{"properties": {"b": {"type": "integer"}}}],
      "$defs": {"Own": {"properties": {"a": {"type": "boolean"}}}}})"));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(JsonOfValue("5", found.at("b")), "5");
  EXPECT_TRUE(ParametersOf(Json::parse("[]")).empty());
}

// Each of fifty definitions has two branches, both the next: 2^50 ways.
TEST(ValueTypesTest, ASchemaThatBranchesWithoutEndTakesNoTime) {
  Json definitions;
  for (int i = 0; i < 50; ++i) {
    const Json next = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    definitions["d" + std::to_string(i)] = {{"anyOf", {next, next}}};
  }
  definitions["circle"] = {{"allOf", {{{"$ref", "#/$defs/circle"}}}}};
  const Json schema = {
      {"$defs", definitions},
      {"properties", {{"p", {{"$ref", "#/$defs/d0"}}}, {"q", {{"$ref", "#/$defs/circle"}}}}}};
  const auto begin = std::chrono::steady_clock::now();
  const Parameters found = ParametersOf(schema);
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - begin), 5);
  EXPECT_EQ(JsonOfValue("5", found.at("p")), "5");
  EXPECT_EQ(JsonOfValue("a", found.at("q")), "\"a\"");
}

// Ten thousand parameters have one list of long values: a copy for each would be 1 GB.
TEST(ValueTypesTest, ListsThatAreReferredToOftenTakeNoMemory) {
  Json list = Json::array();
  for (int i = 0; i < 100; ++i) list.push_back(std::string(1000, static_cast<char>('a' + i % 26)));
  Json properties;
  for (int i = 0; i < 10'000; ++i) {
    properties["p" + std::to_string(i)] = {{"$ref", "#/$defs/list"}};
  }
  const Json schema = {{"$defs", {{"list", {{"enum", list}}}}}, {"properties", properties}};
  size_t bytes = 0;
  for (const auto& [name, types] : ParametersOf(schema)) {
    for (const auto& value : types.values) bytes += value.json.size();
  }
  EXPECT_LT(bytes, 4u << 20);
  EXPECT_GT(bytes, 100u * 1000);
}

// What is not looked at to its end may be of types that were not seen.
TEST(ValueTypesTest, WhereNothingIsLeftAnyValueIsKnown) {
  const Json schema = Json::parse(R"({"properties": {"p": {"type": ["string", "integer"]}}})");
  int64_t enough = 10, few = 3;
  EXPECT_FALSE(gateway::ParametersOf(schema, &enough).at("p").Allows(ValueTypes::Type::kArray));
  EXPECT_TRUE(gateway::ParametersOf(schema, &few).at("p").Allows(ValueTypes::Type::kArray));
}

// Neither are long types, parts and paths free, nor do two functions get as much each.
TEST(ValueTypesTest, WhatIsLongHasAPrice) {
  const Json types = {{"type", Json(std::vector<std::string>(100'000, "null"))}};
  const Json path = {{"$ref", "#/" + std::string(1 << 20, '~')}};
  Json circles = {{"allOf", Json(std::vector<Json>(1000, {{"$ref", "#"}}))}};
  circles["properties"] = {{"p", types}, {"q", path}};
  int64_t visits_left = kSchemaVisitsMax;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) gateway::ParametersOf(circles, &visits_left);
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - begin), 5);
  EXPECT_LT(visits_left, 0);
}

}  // namespace
}  // namespace tutti::gateway
