// tokenizer.json of Llama 2 and 3.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/sentencepiece_file.h"
#include "text/sentencepiece_testing.h"
#include "text/text_testing.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace tutti::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// The same vocabulary as transformers writes it.
json LlamaJson() {
  json vocab = json::object(), added = json::array();
  const auto model = MakeTinySentencepiece(TinyWords());
  for (size_t i = 0; i < model.pieces.size(); ++i) vocab[model.pieces[i].text] = i;
  for (int id = 0; id < 3; ++id) {
    added.push_back({{"id", id},
                     {"content", model.pieces[id].text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", id == 0},
                     {"special", true}});
  }
  const json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {bos, text}},
            {"pair", {bos, text, bos, text}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"\u2581 a", "a b", "\u2581 ab", "\u2581a b", "a n"}}}}};
}

TEST(LlamaJsonTest, GivesTheIdsOfTheModelItWasMadeFrom) {
  const auto tokenizer = BuildTokenizer(ParseTokenizerJson(LlamaJson().dump()));
  const auto model = BuildTokenizer(ParseSentencepiece(MakeTinySentencepiece(TinyWords()).Bytes()));
  for (const std::string text : {"", "a", "ab", "bab  an", " \u00e9\n", "\u65e5<s>", "x\u2581a"}) {
    EXPECT_EQ(EncodeUser(*tokenizer, text), EncodeUser(*model, text)) << text;
    EXPECT_EQ(DecodeAll(*tokenizer, EncodeUser(*tokenizer, text)),
              DecodeAll(*model, EncodeUser(*model, text)));
  }
  EXPECT_THAT(*tokenizer->EncodePrompt("a"), ElementsAre(1, kSpaceA));
  EXPECT_THAT(EncodeTrusted(*tokenizer, "<s>a</s>a<unk>"), ElementsAre(1, kSpaceA, 2, kSpaceA, 0));
}

TEST(LlamaJsonTest, MetaspaceInPlaceOfNormalizers) {
  json document = LlamaJson();
  document["normalizer"] = nullptr;
  const auto load = [&](const json& metaspace) {
    document["pre_tokenizer"] = metaspace;
    return BuildTokenizer(ParseTokenizerJson(document.dump()));
  };
  json metaspace = {{"type", "Metaspace"},
                    {"replacement", "\u2581"},
                    {"prepend_scheme", "first"},
                    {"split", false}};
  const auto first = load(metaspace);
  EXPECT_THAT(EncodeTrusted(*first, "a"), ElementsAre(kSpaceA));
  EXPECT_THAT(EncodeTrusted(*first, " a"), ElementsAre(kSpaceA));  // has its space already
  EXPECT_THAT(EncodeTrusted(*first, "<s>a"), ElementsAre(1, kA));
  metaspace["prepend_scheme"] = "always";
  EXPECT_THAT(EncodeTrusted(*load(metaspace), "<s>a"), ElementsAre(1, kSpaceA));
  metaspace["prepend_scheme"] = "never";
  EXPECT_THAT(EncodeTrusted(*load(metaspace), "a"), ElementsAre(kA));
  metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"add_prefix_space", true}};
  EXPECT_THAT(EncodeTrusted(*load(metaspace), "<s>a"), ElementsAre(1, kSpaceA));
}

TEST(LlamaJsonTest, RefusesByField) {
  struct Case {
    std::string pointer;
    json value;
    std::string named;
  };
  const json strip = {{"type", "Strip"}, {"content", "x"}, {"start", 1}, {"stop", 0}};
  for (const Case& c : std::vector<Case>{
           {"/model/byte_fallback", false, "model.byte_fallback"},
           {"/normalizer/normalizers/0/prepend", "x", "normalizer.normalizers[0].prepend"},
           {"/normalizer/normalizers/1/content", "_", "normalizers[1].content"},
           {"/normalizer/normalizers/1/pattern", {{"Regex", " "}}, "normalizers[1].pattern"},
           {"/normalizer",
            {{"type", "Prepend"}, {"prepend", "\u2581"}},
            "normalizer: Prepend without"},
           {"/decoder", {{"type", "ByteLevel"}}, "decoder.type"},
           {"/decoder/decoders/3", strip, "decoders[3].content"},
           {"/post_processor/single/0/SpecialToken/id", "<x>", "special_tokens.<x>"},
           {"/post_processor/single/0", {{"Sequence", {{"id", "A"}}}}, "single[1]"},
           {"/post_processor/special_tokens/<s>/ids", json::array({-1}), "special_tokens.<s>.ids"},
           {"/pre_tokenizer", {{"type", "ByteLevel"}}, "pre_tokenizer.type: \"ByteLevel\""}}) {
    json document = LlamaJson();
    document[json::json_pointer(c.pointer)] = c.value;
    const auto spec = ParseTokenizerJson(document.dump());
    ASSERT_FALSE(spec.ok()) << c.pointer;
    EXPECT_THAT(MessageOf(spec.status()), HasSubstr(c.named)) << c.pointer;
  }
  json document = LlamaJson();
  document["model"]["vocab"]["a b"] = 999;
  EXPECT_THAT(MessageOf(Tokenizer::Create(*ParseTokenizerJson(document.dump())).status()),
              HasSubstr("\"a b\" (999) is not spelled"));
}

// Llama 3 keeps words whole that no merge makes, and begins prompts with a token.
TEST(LlamaJsonTest, ByteLevelWithWholeWordsAndABeginning) {
  json document = TinyTokenizerJson();
  document["model"]["ignore_merges"] = true;
  document["model"]["vocab"]["qqq"] = 280;
  document["post_processor"] = {{"type", "Sequence"},
                                {"processors",
                                 {document["decoder"],
                                  {{"type", "TemplateProcessing"},
                                   {"single",
                                    {{{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}},
                                     {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                                   {"special_tokens", {{"<|end|>", {{"ids", {kTinyEnd}}}}}}}}}};
  const auto tokenizer = BuildTokenizer(ParseTokenizerJson(document.dump()));
  EXPECT_THAT(*tokenizer->EncodePrompt("qqq"), ElementsAre(kTinyEnd, 280));
  EXPECT_THAT(EncodeUser(*tokenizer, "qqqq"), ElementsAre('q', 'q', 'q', 'q'));
}

}  // namespace
}  // namespace tutti::text
