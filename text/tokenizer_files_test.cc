// tokenizer.json, and vocab.json with merges.txt: the values read and the values refused.
#include "text/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "text/ids_testing.h"
#include "text/limits.h"
#include "text/split_pattern.h"
#include "text/text_testing.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/vocab_and_merges.h"

namespace tutti::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// --- Files ---

TEST(TokenizerFilesTest, TokenizerJsonGivesTheSameTokenizer) {
  TempDir dir;
  dir.Write("tokenizer.json", TinyTokenizerJson().dump());
  auto loaded = Tokenizer::Load(dir.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto expected = TinyTokenizer();
  const std::vector<Segment> segments = {{"<|end|>of the ", false},
                                         {"the<think>e\u0301 <|end|>", true}};
  EXPECT_EQ(Ids(**loaded, segments), Ids(*expected, segments));
}

TEST(TokenizerFilesTest, MergesMayBePairs) {
  json document = TinyTokenizerJson();
  json pairs = json::array();
  for (const auto& [left, right] : TinySpec().merges) pairs.push_back({left, right});
  document["model"]["merges"] = pairs;
  auto spec = ParseTokenizerJson(document.dump());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->merges, TinySpec().merges);
}

TEST(TokenizerFilesTest, ByteLevelMaySplitByItself) {
  json document = TinyTokenizerJson();
  document["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  document["normalizer"] = nullptr;
  document.erase("post_processor");
  auto spec = ParseTokenizerJson(document.dump());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->split_patterns, ElementsAre(std::string(kByteLevelSplitPattern)));
  EXPECT_FALSE(spec->normalization.nfc);
}

TEST(TokenizerFilesTest, SequenceOfNormalizers) {
  json document = TinyTokenizerJson();
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  EXPECT_TRUE(ParseTokenizerJson(document.dump())->normalization.nfc);
  document["normalizer"]["normalizers"] = json::array();
  EXPECT_FALSE(ParseTokenizerJson(document.dump())->normalization.nfc);
}

// A tokenizer.json with one value changed, and the field that the refusal names.
struct Refusal {
  std::string pointer;
  json value;
  std::string named;
};

std::vector<Refusal> RefusedSteps() {
  const std::string split = "/pre_tokenizer/pretokenizers/0";
  return {
      {"/extra", 1, "document.extra"},
      {"/normalizer", {{"type", "NFKC"}}, "normalizer.type: \"NFKC\""},
      {"/normalizer", {{"type", "NFC"}, {"strip", true}}, "normalizer.strip"},
      {"/normalizer", "NFC", "normalizer"},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}},
       "normalizer.normalizers[0].type: \"Lowercase\""},
      {"/pre_tokenizer", nullptr, "pre_tokenizer"},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, "pre_tokenizer.type: \"Whitespace\""},
      {split + "/behavior", "Removed",
       "pre_tokenizer.pretokenizers[0].behavior: value \"Removed\""},
      {split + "/behavior", nullptr, "pretokenizers[0].behavior"},
      {split + "/invert", true, "pretokenizers[0].invert"},
      {split + "/pattern", {{"String", " "}}, "pretokenizers[0].pattern.String"},
      {split + "/pattern/Regex", "\\w+", "pretokenizers[0].pattern.Regex: construct \"\\w\""},
      {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true,
       "pretokenizers[1].add_prefix_space"},
      {"/pre_tokenizer/pretokenizers/1/trim", true, "pretokenizers[1].trim"},
      {"/pre_tokenizer/pretokenizers", json::array(), "has neither ByteLevel nor Metaspace"},
      {"/post_processor", {{"type", "TemplateProcessing"}}, "post_processor.single: not a list"},
      {"/post_processor",
       {{"type", "RobertaProcessing"}},
       "post_processor.type: \"RobertaProcessing\""},
      {"/decoder", {{"type", "Metaspace"}}, "decoder.type: \"Metaspace\""},
      {"/decoder", nullptr, "decoder"}};
}

std::vector<Refusal> RefusedTables() {
  return {{"/model/type", "WordPiece", "model.type: value \"WordPiece\""},
          {"/model/dropout", 0.1, "model.dropout: value 0.1"},
          {"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix"},
          {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
          {"/model/byte_fallback", true, "model.byte_fallback"},
          {"/model/ignore_merges", 1, "model.ignore_merges"},
          {"/model/unknown", 1, "model.unknown"},
          {"/model", json::array(), "model"},
          {"/model/vocab", json::array(), "model.vocab"},
          {"/model/vocab/a", "x", "id of token \"a\""},
          {"/model/vocab/a", json::array(), "id of token \"a\""},
          {"/model/merges", "a b", "model.merges"},
          {"/model/merges", nullptr, "model.merges"},
          {"/model/merges", json::object(), "model.merges"},
          {"/model/merges/1", "a", "model.merges[1]"},
          {"/model/merges/1", "a b c", "model.merges[1]"},
          {"/model/merges/1", {"a"}, "model.merges[1]"},
          {"/model/merges/1", {"a", "b", "c"}, "model.merges[1]"},
          {"/model/merges/1", 5, "model.merges[1]"},
          {"/model/merges/1", {{"a", "b"}}, "model.merges[1]"},
          {"/added_tokens", "x", "added_tokens"},
          {"/added_tokens/0", 1, "added_tokens[0]"},
          {"/added_tokens/0/content", "", "added_tokens[0].content"},
          {"/added_tokens/0/content", std::string(kAddedTokenBytesMax + 1, 'x'),
           "added_tokens[0].content"},
          {"/added_tokens/1/lstrip", 1, "added_tokens[1].lstrip"},
          {"/added_tokens/1/rstrip", 1, "added_tokens[1].rstrip"},
          {"/added_tokens/1/single_word", 1, "added_tokens[1].single_word"},
          {"/added_tokens/1/id", -1, "added_tokens[1].id"},
          {"/added_tokens/1/id", kTokenIdMax + 1, "added_tokens[1].id"},
          {"/added_tokens/1/id", "x", "added_tokens[1].id"},
          {"/added_tokens/1/special", "yes", "added_tokens[1].special"}};
}

// Unknown values are refused, and named.
TEST(TokenizerFilesTest, RefusesByField) {
  std::vector<Refusal> all = RefusedSteps();
  for (const Refusal& one : RefusedTables()) all.push_back(one);
  for (const Refusal& one : all) {
    json document = TinyTokenizerJson();
    document[json::json_pointer(one.pointer)] = one.value;
    const auto spec = ParseTokenizerJson(document.dump());
    ASSERT_FALSE(spec.ok()) << one.pointer;
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(one.named)) << one.pointer;
  }
}

TEST(TokenizerFilesTest, RefusesMissingParts) {
  for (const std::string pointer :
       {"/model/vocab", "/model/merges", "/model", "/decoder", "/pre_tokenizer"}) {
    json document = TinyTokenizerJson();
    document = document.patch({{{"op", "remove"}, {"path", pointer}}});
    EXPECT_FALSE(ParseTokenizerJson(document.dump()).ok()) << pointer;
  }
}

TEST(TokenizerFilesTest, RefusesWhatIsNoTokenizerJson) {
  const std::string good = TinyTokenizerJson().dump();
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("null"), std::string("5"),
        good.substr(0, good.size() / 2), good + "x", std::string(1000, '['),
        std::string(R"({"model":{"vocab":{"a":99999999999999999999}}})"),
        std::string(R"({"model":{"merges":[],"merges":[]}})"),
        std::string(R"({"version":1,"version":2})")}) {
    EXPECT_FALSE(ParseTokenizerJson(text).ok()) << text.substr(0, 60);
  }
}

TEST(TokenizerFilesTest, RefusesVocabulariesThatContradictThemselves) {
  const auto message = [](const TokenizerSpec& spec) {
    auto result = Tokenizer::Create(spec);
    return result.ok() ? "accepted" : std::string(result.status().message());
  };
  TokenizerSpec spec = TinySpec();
  spec.merges.emplace_back("q", "q");
  EXPECT_THAT(message(spec), HasSubstr("merge 4 (\"q\", \"q\")"));
  spec = TinySpec();
  spec.vocabulary.emplace_back("\u2581a", 290);
  EXPECT_THAT(message(spec), HasSubstr("\u2581a"));
  spec = TinySpec();
  spec.vocabulary.emplace_back("qq", 'a');
  EXPECT_THAT(message(spec), HasSubstr("two tokens have the id 97"));
  spec = TinySpec();
  spec.added_tokens[0].id = 'a';
  EXPECT_THAT(message(spec), HasSubstr("<|end|>"));
  spec = TinySpec();
  spec.added_tokens[1].content = "<|end|>";
  EXPECT_THAT(message(spec), HasSubstr("given twice"));
  spec = TinySpec();
  spec.vocabulary.emplace_back("<think>", 280);
  EXPECT_THAT(message(spec), HasSubstr("has id 301 but id 280"));
  spec = TinySpec();
  spec.added_tokens[0].normalized = true;
  EXPECT_THAT(message(spec), HasSubstr("special and normalized"));
  spec.normalization.nfc = false;  // then the two are the same
  EXPECT_EQ(message(spec), "accepted");
  spec = TinySpec();
  spec.vocabulary.emplace_back("<think>", kTinyThink);  // in both, and agreeing
  EXPECT_EQ(message(spec), "accepted");
}

std::string VocabJson() {
  json vocab = json::object();
  for (const auto& [token, id] : TinySpec().vocabulary) vocab[token] = id;
  return vocab.dump();
}
constexpr char kMerges[] = "#version: 0.2\nt h\r\nth e\n\u0120 the\nh e\n";

TEST(TokenizerFilesTest, VocabAndMerges) {
  TempDir dir;
  dir.Write("vocab.json", VocabJson());
  dir.Write("merges.txt", kMerges);
  auto loaded = Tokenizer::Load(dir.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Ids(**loaded, "the the12"), ElementsAre(kTinyThe, kTinySpaceThe, '1', '2'));
  EXPECT_FALSE((*loaded)->SpecialId("<|end|>").has_value());

  const json added = {{"content", "<|end|>"}, {"special", true}, {"normalized", false},
                      {"lstrip", false},      {"rstrip", false}, {"single_word", false}};
  const auto with_config = [&](const json& config) {
    dir.Write("tokenizer_config.json", config.dump());
    auto result = Tokenizer::Load(dir.path());
    return result.ok() ? absl::StrCat("ok ", (*result)->SpecialId("<|end|>").value_or(-1))
                       : std::string(result.status().message());
  };
  EXPECT_EQ(with_config({{"added_tokens_decoder", {{"300", added}}},
                         {"tokenizer_class", "Qwen2Tokenizer"}}),
            "ok 300");
  EXPECT_THAT(with_config({{"tokenizer_class", "GPT2Tokenizer"}}), HasSubstr("tokenizer_class"));
  EXPECT_THAT(with_config({{"add_prefix_space", true}}), HasSubstr("add_prefix_space"));
  EXPECT_THAT(with_config({{"added_tokens_decoder", {{"x", added}}}}),
              HasSubstr("added_tokens_decoder.x"));
  EXPECT_THAT(with_config({{"added_tokens_decoder", 5}}), HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(with_config(json::array()), HasSubstr("tokenizer_config.json"));
}

TEST(TokenizerFilesTest, RefusesBadVocabAndMergesNamingTheLine) {
  EXPECT_THAT(std::string(ParseVocabAndMerges("{}", "t h\nth\n").status().message()),
              HasSubstr("merges.txt:2"));
  EXPECT_THAT(std::string(ParseVocabAndMerges("{}", "a b c\n").status().message()),
              HasSubstr("merges.txt:1"));
  EXPECT_THAT(std::string(ParseVocabAndMerges("[]", "").status().message()),
              HasSubstr("vocab.json"));
  EXPECT_THAT(std::string(ParseVocabAndMerges("{\"a\":{}}", "").status().message()),
              HasSubstr("vocab.json"));
  TempDir dir;
  EXPECT_EQ(Tokenizer::Load(dir.path()).status().code(), absl::StatusCode::kNotFound);
  dir.Write("vocab.json", VocabJson());
  EXPECT_EQ(Tokenizer::Load(dir.path()).status().code(),
            absl::StatusCode::kNotFound);  // no merges.txt
  dir.Write("merges.txt", "zz yy\n");
  EXPECT_THAT(std::string(Tokenizer::Load(dir.path()).status().message()),
              HasSubstr("vocab.json: merge 0"));
}

// --- tokens that other files describe ---

json Described(bool special) {
  return {{"content", "<|im_end|>"}, {"special", special}, {"normalized", false},
          {"lstrip", false},         {"rstrip", false},    {"single_word", false}};
}

TEST(DescribedTokensTest, AddedTokensJsonNamesMarkersThatTheVocabularyLacks) {
  for (const bool with_tokenizer_json : {false, true}) {
    TempDir dir;
    if (with_tokenizer_json) {
      dir.Write("tokenizer.json", TinyTokenizerJson().dump());
    } else {
      dir.Write("vocab.json", VocabJson());
      dir.Write("merges.txt", "t h\n");
    }
    dir.Write("added_tokens.json", R"({"<|im_start|>": 400, "<|im_end|>": 401, "<tool>": 402})");
    dir.Write("special_tokens_map.json", R"({"eos_token": "<|im_end|>",
        "additional_special_tokens": ["<|im_start|>", {"content": "<|im_end|>"}]})");
    const auto loaded = Tokenizer::Load(dir.path());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->SpecialId("<|im_start|>"), 400);
    EXPECT_THAT(*(*loaded)->EncodePrompt("<|im_end|><tool>"), ElementsAre(401, 402));
    EXPECT_FALSE((*loaded)->IsSpecial(402));
    EXPECT_THAT((*loaded)->end_of_turn(), ElementsAre(401));
    // A list of tokenizer_config.json is used instead.
    dir.Write("tokenizer_config.json",
              json{{"added_tokens_decoder", {{"500", Described(true)}}}}.dump());
    const auto listed = Tokenizer::Load(dir.path());
    ASSERT_TRUE(listed.ok()) << listed.status();
    EXPECT_EQ((*listed)->SpecialId("<|im_end|>"), 500);
    EXPECT_FALSE((*listed)->SpecialId("<|im_start|>").has_value());
  }
}

TEST(DescribedTokensTest, TheEndThatTokenizerConfigNamesEndsTheTurn) {
  TempDir dir;
  dir.Write("tokenizer.json", TinyTokenizerJson().dump());
  EXPECT_THAT((*Tokenizer::Load(dir.path()))->end_of_turn(), ElementsAre());
  for (const json& end : {json("<|end|>"), json{{"content", "<|end|>"}, {"lstrip", false}}}) {
    dir.Write("tokenizer_config.json", json{{"eos_token", end}}.dump());
    EXPECT_THAT((*Tokenizer::Load(dir.path()))->end_of_turn(), ElementsAre(kTinyEnd));
  }
  dir.Write("tokenizer_config.json", R"({"eos_token": "<|another|>"})");
  EXPECT_THAT((*Tokenizer::Load(dir.path()))->end_of_turn(), ElementsAre());
}

TEST(DescribedTokensTest, WhatContradictsTokenizerJsonIsOfAnotherModel) {
  TempDir dir;
  dir.Write("tokenizer.json", TinyTokenizerJson().dump());
  dir.Write("added_tokens.json", R"({"<|im_end|>": 65, "<|end|>": 7, "<|more|>": 310})");
  const auto loaded = Tokenizer::Load(dir.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->SpecialId("<|end|>"), kTinyEnd);
  EXPECT_THAT(*(*loaded)->Encode("A<|more|>"), ElementsAre('A', 310));
}

TEST(DescribedTokensTest, RefusesNamingFileAndToken) {
  TempDir dir;
  dir.Write("tokenizer.json", TinyTokenizerJson().dump());
  const auto message = [&](const std::string& name, const std::string& text) {
    dir.Write(name, text);
    std::string said(Tokenizer::Load(dir.path()).status().message());
    dir.Write(name, "{}");
    return said;
  };
  EXPECT_THAT(message("added_tokens.json", "[]"), HasSubstr("added_tokens.json: not an object"));
  EXPECT_THAT(message("added_tokens.json", R"({"<a>": "b"})"), HasSubstr("added_tokens.json.<a>"));
  EXPECT_THAT(message("added_tokens.json", R"({"<a>": -1})"), HasSubstr("outside [0, "));
  EXPECT_THAT(message("special_tokens_map.json", "1"), HasSubstr("special_tokens_map.json"));
  EXPECT_THAT(message("tokenizer_config.json", R"({"added_tokens_decoder": []})"),
              HasSubstr("tokenizer_config.json: added_tokens_decoder: not an object"));
}

}  // namespace
}  // namespace tutti::text
