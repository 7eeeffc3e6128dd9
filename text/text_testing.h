// For tests of the text side: a tokenizer small enough to reason about.
#pragma once

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/byte_alphabet.h"
#include "text/split_pattern.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

inline std::string SourceDir() {
  const char* dir = std::getenv("TUTTI_SOURCE_DIR");
  return dir == nullptr ? "." : dir;
}

// Ids of TinySpec: byte b is token b; then these.
inline constexpr TokenId kTinyTh = 256, kTinyThe = 257, kTinySpaceThe = 258, kTinyHe = 259;
inline constexpr TokenId kTinyEnd = 300;    // <|end|>, special
inline constexpr TokenId kTinyThink = 301;  // <think>, not special
inline constexpr TokenId kTinyEndOf = 302;  // <|end|>of, special: longer than <|end|>

inline TokenizerSpec TinySpec() {
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

inline std::unique_ptr<Tokenizer> TinyTokenizer() {
  auto tokenizer = Tokenizer::Create(TinySpec());
  CHECK(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

// TinySpec as a tokenizer.json.
inline nlohmann::json TinyTokenizerJson() {
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

}  // namespace tutti::text
