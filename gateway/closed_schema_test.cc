#include "gateway/closed_schema.h"

#include <gtest/gtest.h>

namespace tutti::gateway {
namespace {

std::string Closed(const std::string& schema) { return ClosedSchema(Json::parse(schema), schema); }

TEST(ClosedSchema, ObjectsThatNameTheirMembersHaveNoOthers) {
  EXPECT_EQ(Closed(R"({"properties": {"b": {"type": "string"}, "a": {}}, "required": ["a"]})"),
            R"({"properties":{"b":{"type":"string"},"a":{}},"required":["a"],)"
            R"("additionalProperties":false})");
  EXPECT_EQ(
      Closed(R"({"$defs":{"x":{"properties":{}}},"items":{"anyOf":[{"properties":{}},true]}})"),
      R"({"$defs":{"x":{"properties":{},"additionalProperties":false}},"items":{"anyOf":)"
      R"([{"properties":{},"additionalProperties":false},true]}})");
  EXPECT_EQ(
      Closed(R"({"prefixItems":[{"properties":{}}],"additionalProperties":{"properties":{}}})"),
      R"({"prefixItems":[{"properties":{},"additionalProperties":false}],)"
      R"("additionalProperties":{"properties":{},"additionalProperties":false}})");
  // A property of that name is none.
  EXPECT_EQ(Closed(R"({"properties":{"additionalProperties":{},"properties":{"const":1.0}}})"),
            R"({"properties":{"additionalProperties":{},"properties":{"const":1.0}},)"
            R"("additionalProperties":false})");
}

TEST(ClosedSchema, WhatMayMeanOthersIsLeftAsItIs) {
  for (const char* schema : {
           R"({"type":"object"})",
           R"({"properties":{},"additionalProperties":true})",
           R"({"properties":{},"patternProperties":{"^x":{}}})",
           R"({"properties":{},"minProperties":1})",
           R"({"properties":{},"required":["other"]})",
           R"({"properties":{},"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]})",
           R"({ "allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}] })",
           R"({"properties":{},"not":{"properties":{"a":{}}}})",
           R"({"$ref":"#/$defs/x","properties":{"b":{}},"$defs":{"x":{"properties":{}}}})",
           R"({"enum":[{"properties":{}}],"default":{"properties":{}}})",
           R"({"unevaluatedProperties":{},"properties":{}})",
       }) {
    EXPECT_EQ(Closed(schema), schema);
  }
}

}  // namespace
}  // namespace tutti::gateway
