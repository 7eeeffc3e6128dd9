#include "grammar/hostile_testing.h"

#include <functional>

#include "grammar/limits.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// `piece(i)` for i below `count`, with commas between.
std::string List(int count, const std::function<std::string(int)>& piece) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i == 0 ? "" : ",") + piece(i);
  return out;
}

std::string Repeated(int count, std::string_view text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Every definition names two of the next level: 2^levels ways lead to the last one.
std::string ReferenceGraph(int levels, std::string_view last) {
  return List(levels,
              [&](int i) {
                return Concat("\"d", i, "\":{\"allOf\":[{\"$ref\":\"#/$defs/d", i + 1,
                              "\"},{\"$ref\":\"#/$defs/d", i + 1, "\"}]}");
              }) +
         Concat(",\"d", levels, "\":", last);
}

void AddObjects(std::vector<HostileSource>* out) {
  const auto schema = [&](std::string name, std::string text) {
    out->push_back({std::move(name), {SourceKind::kJsonSchema, std::move(text)}});
  };
  schema("10,000 closed properties", "{\"type\":\"object\",\"additionalProperties\":false," +
                                         Properties(10'000, R"({"type":"string"})") + "}");
  schema("10,000 open properties",
         "{\"type\":\"object\"," + Properties(10'000, R"({"type":"integer"})") + "}");
  schema("10,000 properties and a pattern",
         "{\"patternProperties\":{\"(?:a?){6000}\":{}}," + Properties(10'000, "{}") + "}");
  schema("properties and four patterns",
         "{\"patternProperties\":{\"a.*b.*c\":{},\"[p-r]{9}\":{},\"x|y|z\":{},\"9.*9\":{}}," +
             Properties(5'000, "{}") + "}");
  const std::string required = List(6'000, [](int i) { return Concat("\"name", i, "\""); });
  const std::string branch = "{\"type\":\"object\",\"required\":[" + required + "]}";
  schema("oneOf of objects with many required",
         "{\"oneOf\":[" + List(8, [&](int) { return branch; }) + "]}");
  schema("names of one long beginning", "{\"properties\":{" + List(4'000, [](int i) {
                                          return Concat("\"", std::string(200, 'n'), i, "\":{}");
                                        }) + "}}");
  schema("names that begin each other", "{\"properties\":{" + List(1'200, [](int i) {
                                          return "\"" + std::string(i + 1, 'a') + "\":{}";
                                        }) + "}}");
  schema("objects inside each other",
         Nested(60, R"({"type":"object","required":["a"],"properties":{"a":)", "{}", "}}"));
  schema("a large object that goes round", "{\"$ref\":\"#/$defs/r\",\"$defs\":{\"r\":{" +
                                               Properties(6'000, R"({"$ref":"#/$defs/r"})") +
                                               "}}}");
  schema("many large objects", "{\"anyOf\":[" + List(100, [](int) {
                                 return "{" + Properties(150, "{\"type\":\"null\"}") + "}";
                               }) + "]}");
  schema("names by a schema of many",
         "{" + Properties(8'000, "{}") + ",\"propertyNames\":{\"enum\":[" +
             List(8'000, [](int i) { return Concat("\"property", i, "\""); }) + "]}}");
}

void AddReferences(std::vector<HostileSource>* out) {
  const auto schema = [&](std::string name, std::string text) {
    out->push_back({std::move(name), {SourceKind::kJsonSchema, std::move(text)}});
  };
  schema("a long constant through references",
         "{\"const\":\"" + std::string(100'000, 'c') + "\",\"$ref\":\"#/$defs/d0\",\"$defs\":{" +
             ReferenceGraph(20, "{\"const\":\"" + std::string(100'000, 'c') + "\"}") + "}}");
  schema("values through a graph of references",
         "{\"enum\":[" + List(300, [](int i) { return Concat("[", i, ",[1,2,{\"a\":1e3}]]"); }) +
             "],\"$ref\":\"#/$defs/d0\",\"$defs\":{" +
             ReferenceGraph(12, R"({"type":"array","items":{"anyOf":[{},{"type":"null"}]}})") +
             "}}");
  const std::string name(50'000, 'r');
  schema("long names of references",
         "{\"allOf\":[" + List(9, [&](int) { return "{\"$ref\":\"#/$defs/" + name + "\"}"; }) +
             "],\"$defs\":{\"" + name + "\":{\"type\":\"object\",\"properties\":{" +
             List(1'000, [&](int i) { return Concat("\"p", i, "\":{\"$ref\":\"#\"}"); }) + "}}}}");
  schema("references that go round", "{\"$ref\":\"#/$defs/d0\",\"$defs\":{" + List(200, [](int i) {
                                       return Concat("\"d", i, R"(":{"allOf":[{"$ref":"#/$defs/d)",
                                                     (i + 1) % 200, R"("},{"$ref":"#/$defs/d)",
                                                     (i * 7 + 3) % 200, "\"}]}");
                                     }) + "}}");
  schema("a reference of 400,000 steps",
         "{\"$ref\":\"#" + Repeated(400'000, "/a") + "\",\"a\":{}}");
  const std::string two = R"({"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]})";
  schema("unions that meet", "{\"allOf\":[" + List(40, [&](int) { return two; }) + "]}");
  schema("unions of many branches",
         "{\"allOf\":[" + List(2, [](int) {
           return "{\"anyOf\":[" +
                  List(22, [](int i) { return Concat("{\"minLength\":", i, "}"); }) + "]}";
         }) + "]}");
  schema("oneOf of 900 constants", "{\"oneOf\":[" + List(900, [](int i) {
                                     return Concat("{\"const\":\"constant", i, "\"}");
                                   }) + "]}");
  schema("oneOf of long constants", "{\"oneOf\":[" + List(40, [](int i) {
                                      return Concat("{\"const\":\"", std::string(20'000, 'c'), i,
                                                    "\"}");
                                    }) + "]}");
  schema("oneOf in oneOf", "{\"oneOf\":[" + Nested(60, R"({"oneOf":[)", "true", "]}") + "]}");
}

void AddValues(std::vector<HostileSource>* out) {
  const auto schema = [&](std::string name, std::string text) {
    out->push_back({std::move(name), {SourceKind::kJsonSchema, std::move(text)}});
  };
  schema("20,000 names to choose from",
         "{\"enum\":[" + List(20'000, [](int i) { return Concat("\"name", i, "\""); }) + "]}");
  schema("20,000 names of a type", "{\"type\":\"string\",\"enum\":[" + List(20'000, [](int i) {
                                     return Concat("\"name", i, "\"");
                                   }) + "]}");
  const std::string arrays =
      List(3'000, [](int i) { return Concat("[", i, ",[[[]]],{\"a\":[]}]"); });
  schema("two enums of arrays",
         "{\"enum\":[" + arrays + "],\"allOf\":[{\"enum\":[" + arrays + "]}]}");
  schema("a constant of 900 kB", "{\"const\":\"" + std::string(900'000, 'x') + "\"}");
  schema("texts that begin each other", "{\"enum\":[" + List(1'200, [](int i) {
                                          return "\"" + std::string(i + 1, 'a') + "\"";
                                        }) + "]}");
  schema("long numbers",
         "{\"allOf\":[" +
             List(200,
                  [](int i) { return Concat("{\"maximum\":", std::string(1'000, '9'), i, "}"); }) +
             "],\"enum\":[" + List(500, [](int i) { return Concat(std::string(1'000, '8'), i); }) +
             "]}");
  schema("180,000 empty arrays", "{\"default\":[" + List(180'000, [](int) { return "[]"; }) + "]}");
  schema("100,000 keywords of nobody", "{" + List(60'000, [](int i) {
                                         return Concat("\"k", i, "\":0");
                                       }) + ",\"items\":{\"$ref\":\"#\"}}");
  schema("a string of escapes", "{\"const\":\"" + Repeated(170'000, "\\u0001") + "\"}");
  schema("arrays of many first items",
         "{\"prefixItems\":[" + List(60'000, [](int) { return "{}"; }) + "]}");
}

void AddPatterns(std::vector<HostileSource>* out) {
  const auto schema = [&](std::string name, std::string text) {
    out->push_back({std::move(name), {SourceKind::kJsonSchema, std::move(text)}});
  };
  const auto regex = [&](std::string name, std::string text) {
    out->push_back({std::move(name), {SourceKind::kRegex, std::move(text)}});
  };
  schema("a pattern against long names",
         "{\"patternProperties\":{\"(?:a?){6000}$\":{}},\"properties\":{" + List(200, [](int i) {
           return Concat("\"", std::string(500, 'a'), i, "\":{}");
         }) + "}}");
  schema("a pattern against values",
         "{\"pattern\":\"^(?:a?){3000}$\",\"enum\":[" +
             List(500, [](int i) { return Concat("\"", std::string(300, 'a'), i, "\""); }) + "]}");
  schema("a pattern with a length",
         R"x({"type":"string","pattern":"(a|b)*a(a|b){20}$","maxLength":1000})x");
  schema("a pattern of long rounds with a length",
         R"x({"type":"string","pattern":"^(.{4000})*$","maxLength":8000})x");
  schema("rounds that do not meet",
         R"x({"maxLength":100000,"pattern":"^(?:(a{61})*|(a{67})*|(a{71})*|(a{73})*)$"})x");
  schema("two patterns", R"x({"allOf":[{"pattern":"(a|b|c){50}x"},{"pattern":"y(a|b|c){60}"}]})x");
  schema("many patterns", "{\"properties\":{" + List(2'000, [](int i) {
                            return Concat("\"p", i, "\":{\"pattern\":\"^[a-z", i, "]{1,60}$\"}");
                          }) + "}}");
  schema("many patterns with lengths", "{\"properties\":{" + List(400, [](int i) {
                                         return Concat("\"p", i, "\":{\"maxLength\":", 60 + i,
                                                       ",\"pattern\":\"^[a-z", i,
                                                       "]+(-[a-z]+)*$\"}");
                                       }) + "}}");
  schema("nested repetitions", R"x({"pattern":"((a{99}){99}){99}"})x");
  regex("an expression of 64 kB", Repeated(32'000, "\\S"));
  regex("classes of sets", Repeated(600, "[" + Repeated(50, "\\S") + "]"));
  std::string characters, complements;
  for (int i = 0; i < 9'000; ++i) {
    const auto c = static_cast<uint32_t>(0x4E00 + i);
    const std::string one = {static_cast<char>(0xE0 | c >> 12),
                             static_cast<char>(0x80 | (c >> 6 & 0x3F)),
                             static_cast<char>(0x80 | (c & 0x3F))};
    characters += one;
    complements += "[^" + one + "]";
  }
  regex("characters of many kinds", characters);
  regex("complements of many kinds", complements);
  std::string ranges = "[";
  for (int i = 0; i < 4'000; ++i) ranges += Concat("\\u{", i % 10, "10", i % 7, "}");
  regex("a class of many ranges again and again", ranges + "]{9000}");
  regex("a great repetition of nothing", "((){9999}){9999}");
  regex("an automaton of 2^20 states", "(a|b)*a(a|b){20}");
  regex("many beginnings", "(.*[a-m]){200}");
  regex("thousands that may be left out", "(?:[a-z ]?){4000}");
  regex("words by the dozen", "(?:\\S+\\s+){0,50}\\S+");
  regex("groups", Repeated(120, "(") + Repeated(20'000, "a?") + Repeated(120, ")*"));
}

void AddGrammars(std::vector<HostileSource>* out) {
  const auto ebnf = [&](std::string name, std::string text) {
    out->push_back({std::move(name), {SourceKind::kEbnf, std::move(text)}});
  };
  std::string chain = "root ::= r0";
  for (int i = 0; i < 20'000; ++i) {
    chain += Concat("\nr", i, " ::= \"a\" r", i + 1, " | \"b\"");
  }
  ebnf("a chain of 20,000 rules", chain + "\nr20000 ::= \"c\"");
  std::string back = "root ::= r0";
  for (int i = 0; i < 20'000; ++i) back += Concat("\nr", 20'000 - i, " ::= r", 20'001 - i);
  ebnf("a chain the other way round", back + "\nr20001 ::= \"c\"\nr0 ::= r1");
  ebnf("200,000 alternatives", "r ::= " + Repeated(200'000, "x|") + "\"y\"\nx ::= \"a\"");
  ebnf("500,000 alternatives", "r ::= " + Repeated(500'000, "|"));
  ebnf("escapes", "r ::= \"" + Repeated(400'000, "\\n") + "\"");
  ebnf("strings", "r ::= " + Repeated(250'000, "\"a\" "));
  ebnf("classes", "r ::= " + Repeated(100'000, "[^a-z] "));
  ebnf("a class of 64 kB", "r ::= [" + Repeated(30'000, "\\S") + "]");
  ebnf("a name of 1 MB", "r ::= " + std::string(900'000, 'n'));
  ebnf("strings that are not there",
       "r ::= " + Repeated(900, "(%without \"" + std::string(1'000, 'a') + "b\") "));
  ebnf(
      "schemas", "r ::= " + [] {
        std::string out;
        for (int i = 0; i < 8'000; ++i) {
          out += Concat("%json {\"type\":\"object\",\"properties\":{\"p", i,
                        "\":{\"minLength\":", i, "}}} ");
        }
        return out;
      }());
  ebnf("texts that can be read in many ways",
       "s ::= (p | q){0,4000}\np ::= [a-z]{0,300} \"a\"\nq ::= (\"a\" | \"aa\" | [b-z]){1,900}");
  ebnf("many repetitions of many", "r ::= ((((.{0,9}){0,9}){0,9}){0,9}){0,9}");
  ebnf("comments", "r ::= \"a\" " + Repeated(300'000, "#\n") + " \"b\"");
  out->push_back({"20,000 choices", {SourceKind::kChoice, "[" + List(20'000, [](int i) {
                                                            return Concat("\"name", i, "\"");
                                                          }) + "]"}});
  out->push_back({"choices of 1 MB", {SourceKind::kChoice, "[" + List(1'000, [](int i) {
                                                             return "\"" + std::string(1'000, 'a') +
                                                                    Concat(i) + "\"";
                                                           }) + "]"}});
}

}  // namespace

std::vector<HostileSource> HostileSources() {
  std::vector<HostileSource> out;
  AddObjects(&out);
  AddReferences(&out);
  AddValues(&out);
  AddPatterns(&out);
  AddGrammars(&out);
  return out;
}

std::string Nested(int levels, std::string_view open, std::string_view inner,
                   std::string_view close) {
  return Repeated(levels, open) + std::string(inner) + Repeated(levels, close);
}

std::string Properties(int count, std::string_view schema) {
  return "\"properties\":{" +
         List(count, [&](int i) { return Concat("\"property", i, "\":", schema); }) + "}";
}

}  // namespace tutti::grammar
