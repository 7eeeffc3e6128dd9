#include "text/text_testing.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/split_pattern.h"

namespace tutti::text {

std::string SourceDir() {
  const char* dir = std::getenv("TUTTI_SOURCE_DIR");
  return dir == nullptr ? "." : dir;
}

TokenizerSpec TinySpec() {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    spec.vocabulary.emplace_back(AlphabetFromBytes(std::string(1, static_cast<char>(byte))), byte);
  }
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"t", "h"}, {"th", "e"}, {AlphabetFromBytes(" "), "the"}, {"h", "e"}};
  TokenId next = kTinyTh;
  for (const auto& [left, right] : merges) {
    spec.vocabulary.emplace_back(left + right, next++);
    spec.merges.emplace_back(left, right);
  }
  spec.added_tokens = {{.content = "<|end|>", .id = kTinyEnd, .special = true},
                       {.content = "<think>", .id = kTinyThink},
                       {.content = "<|end|>of", .id = kTinyEndOf, .special = true}};
  spec.split_patterns = {std::string(kQwen2SplitPattern)};
  spec.normalization.nfc = true;
  spec.file = "tokenizer.json";
  return spec;
}

std::unique_ptr<Tokenizer> TinyTokenizer() {
  auto tokenizer = Tokenizer::Create(TinySpec());
  CHECK(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

nlohmann::json TinyTokenizerJson() {
  const TokenizerSpec spec = TinySpec();
  nlohmann::json vocab = nlohmann::json::object(), merges = nlohmann::json::array();
  for (const auto& [token, id] : spec.vocabulary) vocab[token] = id;
  for (const auto& [left, right] : spec.merges) merges.push_back(left + " " + right);
  nlohmann::json added = nlohmann::json::array();
  for (const AddedToken& token : spec.added_tokens) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", false},
                                     {"use_regex", false}};
  const nlohmann::json split = {{"type", "Split"},
                                {"pattern", {{"Regex", kQwen2SplitPattern}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", merges}}}};
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<Tokenizer> BuildTokenizer(absl::StatusOr<TokenizerSpec> spec) {
  CHECK(spec.ok()) << spec.status();
  auto tokenizer = Tokenizer::Create(*std::move(spec));
  CHECK(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::vector<TokenId> EncodeUser(const Tokenizer& tokenizer, std::string_view text) {
  return *tokenizer.Encode(text);
}

std::vector<TokenId> EncodeTrusted(const Tokenizer& tokenizer, const std::string& text) {
  return *tokenizer.EncodeSegments(std::vector<Segment>{{text, false}});
}

std::string DecodeAll(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(&tokenizer, false, Detokenizer::From::kBeginning);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Finish();
}

}  // namespace tutti::text
