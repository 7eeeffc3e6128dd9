#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_testing.h"

namespace tutti::grammar {
namespace {

using testing::HasSubstr;

std::string Schema(std::string_view source, std::string_view text,
                   Whitespace whitespace = Whitespace::kCompact) {
  return Judge(SourceKind::kJsonSchema, source, text, whitespace);
}

std::string Refused(std::string_view source) { return Refusal(SourceKind::kJsonSchema, source); }

TEST(SchemaTest, Types) {
  for (const std::string text :
       {"null", "true", "false", "0", "-1.5e3", "\"a\"", "[]", "{}", "[1,[{\"a\":[null]}]]"}) {
    EXPECT_EQ(Schema("{}", text), "yes") << text;
    EXPECT_EQ(Schema("true", text), "yes") << text;
  }
  EXPECT_EQ(Schema(R"({"type":"null"})", "null"), "yes");
  EXPECT_EQ(Schema(R"({"type":"null"})", "true"), "no");
  EXPECT_EQ(Schema(R"({"type":["null","boolean"]})", "true"), "yes");
  EXPECT_EQ(Schema(R"({"type":"integer"})", "12"), "yes");
  EXPECT_EQ(Schema(R"({"type":"integer"})", "1."), "no");
  EXPECT_EQ(Schema(R"({"type":"integer"})", "01"), "no");
  EXPECT_EQ(Schema(R"({"type":"integer"})", "-"), "part");
  EXPECT_EQ(Schema(R"({"type":"number"})", "1.5E+10"), "yes");
  EXPECT_EQ(Schema(R"({"type":"number"})", "1."), "part");
}

TEST(SchemaTest, Strings) {
  EXPECT_EQ(Schema(R"({"type":"string"})", R"("aé\n\u00e9\ud83d\ude00")"), "yes");
  EXPECT_EQ(Schema(R"({"type":"string"})", R"("\ud83d")"), "no") << "half a character";
  EXPECT_EQ(Schema(R"({"type":"string"})", R"("\ud83dx)"), "no");
  EXPECT_EQ(Schema(R"({"type":"string"})", "\"\n"), "no");
  EXPECT_EQ(Schema(R"({"type":"string"})", R"("\x)"), "no");
  EXPECT_EQ(Schema(R"({"type":"string"})", "\"\xFF"), "no");
  const std::string_view lengths = R"({"type":"string","minLength":2,"maxLength":3})";
  EXPECT_EQ(Schema(lengths, R"("é")"), "no");
  EXPECT_EQ(Schema(lengths, R"("éé")"), "yes");
  EXPECT_EQ(Schema(lengths, R"("\ud83d\ude00\u0061é")"), "yes");
  EXPECT_EQ(Schema(lengths, R"("abcd)"), "no");
  EXPECT_EQ(Schema(R"({"type":"string","maxLength":1000000000})", R"("abc")"), "yes");
}

TEST(SchemaTest, Patterns) {
  const std::string_view pattern = R"({"type":"string","pattern":"a\\nb"})";
  EXPECT_EQ(Schema(pattern, R"("xa\nby")"), "yes");
  EXPECT_EQ(Schema(pattern, R"("xa\u000aby")"), "yes");
  EXPECT_EQ(Schema(pattern, R"("xa\\nby")"), "no");
  const std::string_view both =
      R"({"type":"string","pattern":"^(ab)+$","minLength":3,"maxLength":5})";
  EXPECT_EQ(Schema(both, R"("abab")"), "yes");
  EXPECT_EQ(Schema(both, R"("ab")"), "no");
  EXPECT_EQ(Schema(both, R"("ababa)"), "no") << "six characters would be too many";
  EXPECT_THAT(Refused(R"({"type":"string","pattern":"^(ab)+$","minLength":3,"maxLength":3})"),
              HasSubstr("no text satisfies"));
  const std::string_view two =
      R"({"allOf":[{"type":"string","pattern":"^[a-f]+$"},{"pattern":"^[d-z]+$"}]})";
  EXPECT_EQ(Schema(two, R"("deaf")"), "no");
  EXPECT_EQ(Schema(two, R"("def")"), "yes");
  EXPECT_THAT(Refused(R"x({"properties":{"a/b":{"pattern":"(?=x)"}}})x"),
              HasSubstr("json_schema: /properties/a~1b/pattern: looking around"));
}

TEST(SchemaTest, Formats) {
  const auto format = [](std::string_view name, std::string_view text) {
    return Schema(R"({"type":"string","format":")" + std::string(name) + "\"}",
                  "\"" + std::string(text) + "\"");
  };
  EXPECT_EQ(format("date", "2024-02-29"), "yes");
  EXPECT_EQ(format("date", "2023-02-29"), "no");
  EXPECT_EQ(format("date", "0400-02-29"), "yes");
  EXPECT_EQ(format("date", "0001-01-01"), "yes");
  EXPECT_EQ(format("date", "0000-02-29"), "no");
  EXPECT_EQ(format("date", "0000-01-01"), "no");
  EXPECT_EQ(format("date-time", "2024-12-31T23:59:59.5+02:00"), "yes");
  EXPECT_EQ(format("time", "24:00:00Z"), "no");
  EXPECT_EQ(format("email", "a.b@c.example"), "yes");
  EXPECT_EQ(format("email", "a..b@c"), "no");
  EXPECT_EQ(format("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380"), "yes");
  EXPECT_EQ(format("ipv4", "255.255.255.255"), "yes");
  EXPECT_EQ(format("ipv4", "256.1.1.1"), "no");
  EXPECT_EQ(format("ipv6", "1::2:3:4:5:6:7"), "yes");
  EXPECT_EQ(format("ipv6", "1::2:3:4:5:6:7:8"), "no");
  EXPECT_EQ(format("uri", "https://a.example:80/b?c#d"), "yes");
  EXPECT_EQ(format("uri", "//a"), "no");
  EXPECT_EQ(format("int32", "anything"), "yes") << "none of JSON Schema's";
  EXPECT_THAT(Refused(R"({"format":"hostname"})"), HasSubstr("/format: hostname is not served"));
}

TEST(SchemaTest, Numbers) {
  const std::string_view range = R"({"type":"integer","minimum":-12,"exclusiveMaximum":105})";
  for (const std::string text : {"-12", "-1", "0", "9", "99", "100", "104"}) {
    EXPECT_EQ(Schema(range, text), "yes") << text;
  }
  for (const std::string text : {"-13", "-2 ", "105", "1000", "-00", "20 "}) {
    EXPECT_EQ(Schema(range, text), "no") << text;
  }
  EXPECT_EQ(Schema(R"({"type":"integer","minimum":20,"maximum":29})", "2"), "part");
  EXPECT_EQ(Schema(R"({"type":"integer","minimum":20,"maximum":29})", "3"), "no");
  const std::string_view step = R"({"type":"integer","multipleOf":7,"minimum":1})";
  EXPECT_EQ(Schema(step, "7000000000000000000000000007"), "yes");
  EXPECT_EQ(Schema(step, "7000000000000000000000000008"), "part");
  EXPECT_EQ(Schema(step, "0"), "no");
  // A bound of zero holds for every number of decimals.
  for (const size_t zeros : {5, 20, 28, 38}) {
    const std::string tiny = "0." + std::string(zeros, '0') + "1";
    EXPECT_EQ(Schema(R"({"type":"number","maximum":0})", tiny), "no") << zeros;
    EXPECT_EQ(Schema(R"({"type":"number","exclusiveMaximum":0})", tiny), "no") << zeros;
    EXPECT_EQ(Schema(R"({"type":"number","minimum":0})", "-" + tiny), "no") << zeros;
  }
  const std::string_view between = R"({"type":"number","exclusiveMinimum":0.1,"maximum":0.15})";
  EXPECT_EQ(Schema(between, "0.1"), "part");
  EXPECT_EQ(Schema(between, "0.10"), "part");
  EXPECT_EQ(Schema(between, "0.15"), "yes");
  EXPECT_EQ(Schema(between, "0.2"), "no");
  EXPECT_EQ(Schema(between, "-"), "no");
  EXPECT_EQ(Schema(R"({"type":"integer","maximum":18446744073709551615})", "18446744073709551615"),
            "yes");
  EXPECT_EQ(Schema(R"({"type":"integer","maximum":18446744073709551615})", "18446744073709551616"),
            "no");
  EXPECT_THAT(Refused(R"({"type":"integer","multipleOf":7,"minimum":8,"maximum":13})"),
              HasSubstr("no text satisfies"));
  EXPECT_THAT(Refused(R"({"multipleOf":0.01})"), HasSubstr("/multipleOf: a fraction"));
}

TEST(SchemaTest, EnumAndConst) {
  const std::string_view some = R"({"enum":["a","ab",1,{"x":[1.0,null]}]})";
  EXPECT_EQ(Schema(some, "\"ab\""), "yes");
  EXPECT_EQ(Schema(some, "\"a"), "part");
  EXPECT_EQ(Schema(some, R"({"x":[1,null]})"), "yes");
  EXPECT_EQ(Schema(some, "2"), "no");
  EXPECT_EQ(Schema(R"({"const":"\"é"})", R"("\"é")"), "yes");
  EXPECT_EQ(Schema(R"({"type":"string","enum":["abc","d",5],"maxLength":1})", "\"a"), "no");
  EXPECT_EQ(Schema(R"({"type":"string","enum":["abc","d",5],"maxLength":1})", "\"d\""), "yes");
}

TEST(SchemaTest, Objects) {
  const std::string_view closed =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{}},
          "required":["b"],"additionalProperties":false})";
  EXPECT_EQ(Schema(closed, R"({"a":1,"b":true,"c":[]})"), "yes");
  EXPECT_EQ(Schema(closed, R"({"b":true})"), "yes");
  EXPECT_EQ(Schema(closed, R"({"b":true,"c":null})"), "yes");
  EXPECT_EQ(Schema(closed, R"({"b":true,"a)"), "no") << "in the schema's order";
  EXPECT_EQ(Schema(closed, R"({"c)"), "no") << "b would be missing";
  EXPECT_EQ(Schema(closed, "{}"), "no");
  EXPECT_EQ(Schema(closed, R"({"a":1})"), "no");
  EXPECT_EQ(Schema(closed, R"({"b":true,"d)"), "no");
  const std::string_view open =
      R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"null"},
          "type":"object"})";
  EXPECT_EQ(Schema(open, R"({"a":1,"aa":null,"b":null})"), "yes");
  EXPECT_EQ(Schema(open, R"({"b":null,"a":)"), "no") << "a has its own place";
  EXPECT_EQ(Schema(open, R"({"\u0061":)"), "no") << "a, spelled otherwise";
  EXPECT_EQ(Schema(R"({"type":"object","required":["z"]})", R"({"z":1,"y":2})"), "yes");
  EXPECT_EQ(Schema(R"({"type":"object","required":["z"]})", R"({"y)"), "no");
}

TEST(SchemaTest, KeysByPattern) {
  const std::string_view patterns =
      R"({"type":"object","patternProperties":{"^x-":{"type":"integer"},"y$":{"minimum":5}},
          "additionalProperties":false})";
  EXPECT_EQ(Schema(patterns, R"({"x-a":1})"), "yes");
  EXPECT_EQ(Schema(patterns, R"({"x-y":1})"), "no");
  EXPECT_EQ(Schema(patterns, R"({"x-y":6,"y":"any"})"), "yes");
  EXPECT_EQ(Schema(patterns, R"({"z":)"), "no");
  const std::string_view names = R"({"type":"object","propertyNames":{"maxLength":2}})";
  EXPECT_EQ(Schema(names, R"({"ab":1})"), "yes");
  EXPECT_EQ(Schema(names, R"({"abc)"), "no");
  EXPECT_EQ(Schema(R"({"type":"object","propertyNames":{"enum":["k","l"]}})", R"({"k":1,"l":2})"),
            "yes");
}

TEST(SchemaTest, NumbersOfMembers) {
  const std::string_view some =
      R"({"type":"object","properties":{"a":{},"b":{},"c":{},"d":{}},"additionalProperties":false,
          "required":["c"],"minProperties":2,"maxProperties":3})";
  EXPECT_EQ(Schema(some, R"({"c":1})"), "no");
  EXPECT_EQ(Schema(some, R"({"c":1,"d":1})"), "yes");
  EXPECT_EQ(Schema(some, R"({"a":1,"b":1,"c":1})"), "yes");
  EXPECT_EQ(Schema(some, R"({"a":1,"b":1,"c":1,)"), "no");
  EXPECT_EQ(Schema(R"({"type":"object","minProperties":1})", R"({"q":1})"), "yes");
  EXPECT_EQ(Schema(R"({"type":"object","minProperties":1})", "{}"), "no");
  EXPECT_EQ(Schema(R"({"type":"object","maxProperties":0})", "{}"), "yes");
  EXPECT_EQ(Schema(R"({"type":"object","maxProperties":0})", "{\""), "no");
  EXPECT_THAT(Refused(R"({"type":"object","minProperties":2})"),
              HasSubstr("/minProperties: is not"));
}

TEST(SchemaTest, Arrays) {
  const std::string_view some =
      R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})";
  EXPECT_EQ(Schema(some, "[1]"), "no");
  EXPECT_EQ(Schema(some, "[1,2]"), "yes");
  EXPECT_EQ(Schema(some, "[1,2,3]"), "yes");
  EXPECT_EQ(Schema(some, "[1,2,3,"), "no");
  const std::string_view tuple =
      R"({"type":"array","prefixItems":[{"const":1},{"type":"string"}],"items":false,
          "minItems":1})";
  EXPECT_EQ(Schema(tuple, R"([1,"x"])"), "yes");
  EXPECT_EQ(Schema(tuple, "[1]"), "yes");
  EXPECT_EQ(Schema(tuple, R"([1,"x",)"), "no");
  EXPECT_EQ(Schema(tuple, "[]"), "no");
  const std::string_view old =
      R"({"$schema":"http://json-schema.org/draft-07/schema#","type":"array",
          "items":[{"type":"null"}],"additionalItems":{"type":"integer"}})";
  EXPECT_EQ(Schema(old, "[null,1,2]"), "yes");
  EXPECT_EQ(Schema(old, "[1"), "no");
  // A later draft's keyword says nothing.
  for (const std::string_view draft : {"draft-07", "draft/2019-09"}) {
    const std::string later =
        R"({"$schema":"https://json-schema.org/)" + std::string(draft) +
        R"(/schema","type":"array","prefixItems":[{"type":"string"}],"items":{"const":1}})";
    EXPECT_EQ(Schema(later, "[1]"), "yes") << draft;
    EXPECT_EQ(Schema(later, R"(["a")"), "no") << draft;
  }
  EXPECT_EQ(Schema(R"({"type":"array","items":false})", "[]"), "yes");
  EXPECT_EQ(Schema(R"({"type":"array","items":false})", "[1"), "no");
  EXPECT_EQ(Schema(R"({"type":"array","maxItems":4000000000,"items":{"const":1}})", "[1,1,1]"),
            "yes");
}

TEST(SchemaTest, Unions) {
  const std::string_view any =
      R"({"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},
                    "required":["k","v"],"additionalProperties":false},
                   {"type":"object","properties":{"k":{"const":"b"},"v":{"type":"string"}},
                    "required":["k","v"],"additionalProperties":false}]})";
  EXPECT_EQ(Schema(any, R"({"k":"a","v":1})"), "yes");
  EXPECT_EQ(Schema(any, R"({"k":"b","v":"1"})"), "yes");
  EXPECT_EQ(Schema(any, R"({"k":"b","v":1)"), "no");
  const std::string one = "{\"oneOf\":" + std::string(any.substr(9));
  EXPECT_EQ(Schema(one, R"({"k":"a","v":1})"), "yes");
  EXPECT_THAT(Refused(R"({"oneOf":[{"type":"integer"},{"minimum":2}]})"),
              HasSubstr("/oneOf: is served where its branches exclude each other"));
  EXPECT_EQ(
      Schema(R"({"oneOf":[{"type":"integer","maximum":1},{"type":"integer","minimum":2}]})", "2"),
      "yes");
  EXPECT_EQ(Schema(R"({"type":"object","properties":{"a":{}},"required":["a"],
      "anyOf":[{"properties":{"b":{"type":"null"}},"required":["b"]},{"required":["c"]}]})",
                   R"({"a":1,"b":null})"),
            "yes");
}

TEST(SchemaTest, Together) {
  const std::string_view all =
      R"({"allOf":[{"properties":{"a":{"type":"number"}},"required":["a"]},
                   {"properties":{"a":{"minimum":3},"b":{}},"type":"object"}],
          "properties":{"a":{"maximum":9}},"additionalProperties":{"type":"null"}})";
  EXPECT_EQ(Schema(all, R"({"a":5})"), "yes");
  EXPECT_EQ(Schema(all, R"({"a":2})"), "no");
  EXPECT_EQ(Schema(all, R"({"a":10)"), "no");
  EXPECT_EQ(Schema(all, R"({"a":5,"b":1)"), "no") << "additional beside these properties";
  EXPECT_EQ(Schema(all, R"({"a":5,"b":null})"), "yes");
  EXPECT_THAT(Refused(R"({"allOf":[{"type":"string"},{"type":"null"}]})"),
              HasSubstr("no text satisfies"));
}

TEST(SchemaTest, References) {
  const std::string_view tree =
      R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"array","items":{"$ref":"#/$defs/a~1b"}}}})";
  EXPECT_EQ(Schema(tree, "[[],[[]]]"), "yes");
  EXPECT_EQ(Schema(tree, "[1"), "no");
  const std::string_view self =
      R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
          "required":["next"],"additionalProperties":false})";
  EXPECT_EQ(Schema(self, R"({"next":{"next":null}})"), "yes");
  EXPECT_EQ(Schema(self, R"({"next":{}})"), "no");
  EXPECT_EQ(Schema(R"({"$ref":"#n","$defs":{"x":{"$anchor":"n","const":1}}})", "1"), "yes");
  EXPECT_EQ(Schema(R"({"$ref":"#/$defs/n","maximum":3,"$defs":{"n":{"type":"integer"}}})", "4"),
            "no");
  EXPECT_EQ(Schema(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "null"), "yes");
  EXPECT_THAT(Refused(R"({"$ref":"http://a.example/b"})"),
              HasSubstr("/$ref: only references into"));
  EXPECT_THAT(Refused(R"({"$ref":"#/$defs/none"})"), HasSubstr("names nothing"));
  EXPECT_THAT(Refused(R"({"$ref":"#"})"), HasSubstr("")) << "goes round, and ends";
  EXPECT_THAT(Refused(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
              HasSubstr("no text satisfies"));
}

TEST(SchemaTest, RefusedByName) {
  for (const std::string keyword :
       {"not", "contains", "dependencies", "$dynamicRef", "unevaluatedItems", "dependentSchemas"}) {
    EXPECT_EQ(Refused(R"({"properties":{"p":{"items":{")" + keyword + R"(":{"type":"null"}}}}})"),
              "json_schema: /properties/p/items/" + keyword + ": is not served");
  }
  EXPECT_THAT(Refused(R"({"if":{},"then":{}})"), HasSubstr("/if: is not served"));
  EXPECT_THAT(Refused(R"({"uniqueItems":true})"), HasSubstr("/uniqueItems: is not served"));
  EXPECT_EQ(Refused(R"({"uniqueItems":false,"if":{},"dependentRequired":{},"title":"t"})"), "");
  EXPECT_THAT(Refused(R"({"minLength":-1})"), HasSubstr("/minLength: must be a whole number"));
  EXPECT_THAT(Refused(R"({"type":"text"})"), HasSubstr("/type: no type of JSON"));
  EXPECT_THAT(Refused(R"({"required":["a",1]})"),
              HasSubstr("/required: must be an array of names"));
  EXPECT_THAT(Refused("[]"), HasSubstr("no schema"));
  EXPECT_THAT(Refused("{\"a\":1,\"a\":2}"), HasSubstr("key \"a\" twice"));
  EXPECT_THAT(Refused("{"), HasSubstr("not JSON at byte"));
  EXPECT_THAT(Refused("false"), HasSubstr("no text satisfies"));
  EXPECT_THAT(Refused(R"({"$schema":"http://json-schema.org/draft-03/schema#"})"),
              HasSubstr("/$schema: a draft that is not served"));
}

TEST(SchemaTest, Whitespace) {
  const std::string_view schema =
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},
          "required":["a"]})";
  EXPECT_EQ(Schema(schema, R"({"a": [1]})"), "no");
  EXPECT_EQ(Schema(schema, "{\n  \"a\": [1, 2 ],\n \"b\": {} }", Whitespace::kBounded), "yes");
  EXPECT_EQ(Schema(schema, "{" + std::string(24, ' ') + "\"a\":[]}", Whitespace::kBounded), "yes");
  EXPECT_EQ(Schema(schema, "{" + std::string(25, ' '), Whitespace::kBounded), "no");
}

}  // namespace
}  // namespace tutti::grammar
