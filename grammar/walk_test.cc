// Texts made of a real vocabulary's tokens, each drawn from those that a mask allows: random
// weights are the hardest writers. Every text that ends is judged by the schema itself, and every
// one that is cut has an end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "grammar/grammar_testing.h"
#include "grammar/json_tree.h"
#include "grammar/schema_values.h"
#include "text/tokenizer.h"

namespace tutti::grammar {
namespace {

constexpr std::string_view kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":40},
        "age":{"type":"integer","minimum":0,"maximum":150},
        "mail":{"type":"string","format":"email"},"tags":{"type":"array","items":{"enum":["a","b"]},
        "minItems":1,"maxItems":3}},"required":["name","age"],"additionalProperties":false})",
    R"({"type":"object","properties":{"x":{"type":"number","minimum":-1.25,"exclusiveMaximum":1e3},
        "when":{"type":"string","format":"date-time"}},"required":["x","when"],
        "additionalProperties":{"type":"integer","multipleOf":3}})",
    R"({"type":"array","minItems":2,"maxItems":5,"items":{"anyOf":[{"type":"null"},
        {"type":"string","pattern":"^[A-Z][a-z]+( [a-z]+)*$","maxLength":30},
        {"const":{"k":[1,2]}}]}})",
    R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"boolean"},
        "next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/n"}]}},"required":["v","next"],
        "additionalProperties":false}}})",
    R"({"type":"object","patternProperties":{"^x-[a-z]+$":{"type":"string","minLength":2}},
        "propertyNames":{"maxLength":8},"additionalProperties":false,"maxProperties":4})",
};

// Any vocabulary does where the real one is not there.
std::shared_ptr<const TokenTrie> RealTokens(std::vector<std::string>* bytes) {
  const char* const folder = std::getenv("TUTTI_TESTDATA");
  if (folder == nullptr) return nullptr;
  const auto tokenizer =
      text::Tokenizer::Load(std::filesystem::path(folder) / "tokenizers" / "qwen2");
  if (!tokenizer.ok()) return nullptr;
  for (TokenId id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    bytes->emplace_back((*tokenizer)->TokenBytes(id).value_or(""));
  }
  const std::vector<std::string_view> views(bytes->begin(), bytes->end());
  const auto end = static_cast<TokenId>(views.size());
  const std::vector<TokenId> ends = {end};
  return std::make_shared<const TokenTrie>(
      *TokenTrie::Create(views, ends, static_cast<int64_t>(end) + 1));
}

TEST(WalkTest, WhatEndsIsValidAndWhatIsCutHasAnEnd) {
  std::vector<std::string> bytes;
  const std::shared_ptr<const TokenTrie> tokens = RealTokens(&bytes);
  if (tokens == nullptr) GTEST_SKIP() << "TUTTI_TESTDATA names no folder with tokenizers/qwen2";
  Random random(11);
  int ended = 0;
  for (const std::string_view schema : kSchemas) {
    BuildWork work;
    auto source = SchemaSource::Parse(schema, &work);
    ASSERT_TRUE(source.ok());
    const auto automaton =
        std::make_shared<Automaton>(MakeGrammar(SourceKind::kJsonSchema, schema), tokens);
    std::vector<uint32_t> mask(tokens->words());
    for (int walk = 0; walk < 20; ++walk) {
      Matcher matcher(automaton);
      for (int step = 0; step < 60 && !matcher.ended(); ++step) {
        ASSERT_TRUE(matcher.Mask(mask).ok());
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < tokens->size(); ++id) {
          if ((mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << schema << " after " << matcher.text();
        TokenId id = allowed[static_cast<size_t>(random.Uniform() * allowed.size())];
        if (allowed.back() == tokens->ends().front() && random.Chance(0.3)) id = allowed.back();
        ASSERT_TRUE(matcher.AcceptToken(id).ok());
      }
      if (!matcher.ended()) continue;
      ++ended;
      const auto value = ParseJsonTree(matcher.text(), &work);
      ASSERT_TRUE(value.ok()) << matcher.text() << value.status();
      SchemaValues values(&*source);
      const auto admits = values.Admits(source->root(), *value, false);
      ASSERT_TRUE(admits.ok()) << admits.status();
      EXPECT_TRUE(*admits) << schema << ": " << matcher.text();
    }
  }
  EXPECT_GT(ended, 20);
}

}  // namespace
}  // namespace tutti::grammar
