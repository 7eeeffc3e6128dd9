#include "text/cut_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tutti::text {
namespace {

using nlohmann::ordered_json;

std::string Read(std::string_view text) {
  const TemplateJson read = ReadCutObject(text);
  return read->is_discarded() ? "none" : read->dump();
}

TEST(CutJsonTest, EndsWhereTheTextDoes) {
  EXPECT_EQ(Read(R"({"title": "groceries", "body": "milk, bread, )"),
            R"({"title":"groceries","body":"milk, bread, "})");
  EXPECT_EQ(Read(R"({"a": [1, {"b": "c)"), R"({"a":[1,{"b":"c"}]})");
  EXPECT_EQ(Read(R"({"a": 1, "b": tr)"), R"({"a":1})");
  EXPECT_EQ(Read(R"({"a": 1, "b":)"), R"({"a":1})");
  EXPECT_EQ(Read(R"({"a": 1, "b")"), R"({"a":1})");
  EXPECT_EQ(Read(R"({"a": 1, "b)"), R"({"a":1})");
  EXPECT_EQ(Read(R"({"a": 1,)"), R"({"a":1})");
  EXPECT_EQ(Read(R"({"a": 1)"), R"({"a":1})");
  EXPECT_EQ(Read(R"({"a)"), "{}");
  EXPECT_EQ(Read(" {"), "{}");
  EXPECT_EQ(Read(R"({"a": "x\)"), R"({"a":"x"})");
  EXPECT_EQ(Read(R"({"a": "x\u00)"), R"({"a":"x"})");
  EXPECT_EQ(Read(R"({"a": "\"")"), R"({"a":"\""})");
}

TEST(CutJsonTest, WhatIsWholeIsReadAsItIs) {
  EXPECT_EQ(Read(R"({"a": {"b": [1, 2.50]}})"), R"({"a":{"b":[1,2.5]}})");
}

TEST(CutJsonTest, WhatBeginsNoObjectIsNone) {
  for (const char* text : {"", "  ", "[1", "\"a", "a", "}"}) EXPECT_EQ(Read(text), "none");
}

// However it is cut, a call can be given back.
TEST(CutJsonTest, EveryBeginningIsAnObject) {
  const std::string whole =
      R"({"s": "a\"b\\\u00e9\ud83d\ude42", "l": [1, -2e3, [null]], "o": {"k": {}}, "t": true})";
  for (size_t end = 1; end <= whole.size(); ++end) {
    EXPECT_TRUE(ReadCutObject(whole.substr(0, end))->is_object()) << whole.substr(0, end);
  }
  EXPECT_EQ(Read(whole), ordered_json::parse(whole).dump());
}

}  // namespace
}  // namespace tutti::text
