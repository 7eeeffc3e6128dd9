#include "text/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/added_token_json.h"
#include "text/described_tokens.h"
#include "text/limits.h"
#include "text/sentencepiece_file.h"
#include "text/text_break.h"
#include "text/text_fields.h"
#include "text/text_file.h"
#include "text/tiktoken_file.h"
#include "text/tokenizer_json.h"
#include "text/vocab_and_merges.h"

namespace tutti::text {
namespace {

using nlohmann::json;

constexpr char kConfigFile[] = "tokenizer_config.json";

// tokenizer_config.json; an empty object when there is none.
absl::StatusOr<json> ReadConfig(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / kConfigFile;
  if (!IsThere(path)) return json::object();
  TUTTI_ASSIGN_OR_RETURN(json config, ReadJsonFile(path, kTextConfigFileBytesMax));
  if (!config.is_object()) return RefuseField(path.string(), "not an object");
  return config;
}

absl::Status CheckClass(const TextFields& config, std::initializer_list<std::string_view> known) {
  const json& name = config.Get("tokenizer_class");
  const bool ok =
      name.is_null() || std::any_of(known.begin(), known.end(),
                                    [&](std::string_view one) { return name == json(one); });
  if (ok) return absl::OkStatus();
  return RefuseField(config.Path("tokenizer_class"),
                     absl::StrCat(ShownJson(name), " is not supported without a tokenizer.json"));
}

absl::Status ReadAddedTokens(const TextFields& config, TokenizerSpec* spec) {
  const json& added = config.Get("added_tokens_decoder");
  if (added.is_null()) return absl::OkStatus();
  const std::string field = config.Path("added_tokens_decoder");
  if (!added.is_object()) return RefuseField(field, "not an object");
  for (const auto& [key, value] : added.items()) {
    const std::string path = absl::StrCat(field, ".", key);
    int64_t id = 0;
    if (!absl::SimpleAtoi(key, &id)) return RefuseField(path, "not a token id");
    const auto is_same = [&](const AddedToken& token) { return token.id == id; };
    // A token that the vocabulary's own file has already.
    auto& tokens = spec->added_tokens;
    tokens.erase(std::remove_if(tokens.begin(), tokens.end(), is_same), tokens.end());
    TUTTI_RETURN_IF_ERROR(ReadAddedToken(value, path, id, spec));
  }
  return absl::OkStatus();
}

// --- vocab.json and merges.txt ---

absl::Status ApplyQwen2Config(const TextFields& config, TokenizerSpec* spec) {
  TUTTI_RETURN_IF_ERROR(CheckClass(config, {"Qwen2Tokenizer", "Qwen2TokenizerFast"}));
  TUTTI_RETURN_IF_ERROR(config.MustBe("add_prefix_space", {false}));
  return ReadAddedTokens(config, spec);
}

// --- tokenizer.model ---

// As LlamaTokenizer of transformers does with a model that has no tokenizer.json.
absl::Status ApplyLlamaConfig(const TextFields& config, TokenizerSpec* spec) {
  TUTTI_RETURN_IF_ERROR(CheckClass(config, {"LlamaTokenizer", "LlamaTokenizerFast"}));
  TUTTI_RETURN_IF_ERROR(config.MustBe("add_eos_token", {false}));
  TUTTI_ASSIGN_OR_RETURN(const bool legacy, config.Bool("legacy", true));
  if (!legacy && spec->normalization.prefix != TextNormalizer::SpacePrefix::kNone) {
    spec->normalization.prefix = TextNormalizer::SpacePrefix::kFirstStretch;
  }
  TUTTI_ASSIGN_OR_RETURN(const bool add_bos, config.Bool("add_bos_token", true));
  TUTTI_RETURN_IF_ERROR(ReadAddedTokens(config, spec));
  if (!add_bos) return absl::OkStatus();
  json bos = config.Get("bos_token");
  if (bos.is_object()) bos = bos.value("content", json());
  if (bos.is_null()) bos = "<s>";
  for (const AddedToken& token : spec->added_tokens) {
    if (token.special && bos == json(token.content)) spec->prompt_prefix = {token.id};
  }
  if (!spec->prompt_prefix.empty()) return absl::OkStatus();
  return RefuseField(config.Path("bos_token"),
                     absl::StrCat(ShownJson(bos), " is not a special token of tokenizer.model"));
}

// ChatGLM3's tokenization_chatglm.py: five commands and four roles behind the model's own pieces.
// They exist as ids only, so the added tokens of tokenizer_config.json are not used: they would
// make "sop" in a user's "sophist" a command.
void ApplyChatGlm(TokenizerSpec* spec) {
  static constexpr std::array<std::string_view, 9> kCommands = {
      "[MASK]",   "[gMASK]",       "[sMASK]",        "sop", "eop", "<|system|>",
      "<|user|>", "<|assistant|>", "<|observation|>"};
  const auto first = static_cast<TokenId>(spec->vocabulary.size() + spec->added_tokens.size());
  TokenId next = first;
  for (const std::string_view name : kCommands) {
    spec->added_tokens.push_back({.content = std::string(name), .id = next++, .special = true});
  }
  spec->added_tokens.push_back(TextBreak());
  spec->prompt_prefix = {first + 1, first + 3};  // [gMASK] sop
  spec->end_of_turn = {first + 6, first + 8};    // <|user|>, <|observation|>
}

absl::StatusOr<TokenizerSpec> ReadVocabAndMerges(const std::filesystem::path& model_dir) {
  TUTTI_ASSIGN_OR_RETURN(const std::string vocab,
                         ReadTextFile(model_dir / "vocab.json", kTokenizerFileBytesMax));
  TUTTI_ASSIGN_OR_RETURN(const std::string merges,
                         ReadTextFile(model_dir / "merges.txt", kTokenizerFileBytesMax));
  auto spec = ParseVocabAndMerges(vocab, merges);
  if (!spec.ok()) return Annotate(spec.status(), model_dir.string());
  return spec;
}

using Parser = absl::StatusOr<TokenizerSpec> (*)(std::string_view);

absl::StatusOr<TokenizerSpec> ReadAndParse(const std::filesystem::path& file, Parser parse) {
  TUTTI_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kTokenizerFileBytesMax));
  auto spec = parse(text);
  if (!spec.ok()) return Annotate(spec.status(), file.string());
  return spec;
}

// The kind's own files, and what tokenizer_config.json says of how they are used.
absl::StatusOr<TokenizerSpec> ReadVocabulary(const std::filesystem::path& model_dir,
                                             TokenizerKind kind, const json& document) {
  if (kind == TokenizerKind::kTokenizerJson) {
    return ReadAndParse(model_dir / "tokenizer.json", ParseTokenizerJson);
  }
  if (kind == TokenizerKind::kTiktoken) {
    return ReadAndParse(model_dir / "qwen.tiktoken", ParseQwenTiktoken);
  }
  TUTTI_ASSIGN_OR_RETURN(const TextFields config,
                         TextFields::OpenAny(document, (model_dir / kConfigFile).string()));
  if (kind == TokenizerKind::kVocabAndMerges) {
    TUTTI_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadVocabAndMerges(model_dir));
    TUTTI_RETURN_IF_ERROR(ApplyQwen2Config(config, &spec));
    return spec;
  }
  TUTTI_ASSIGN_OR_RETURN(TokenizerSpec spec,
                         ReadAndParse(model_dir / "tokenizer.model", ParseSentencepiece));
  if (kind == TokenizerKind::kChatGlm) {
    ApplyChatGlm(&spec);
  } else {
    TUTTI_RETURN_IF_ERROR(ApplyLlamaConfig(config, &spec));
  }
  return spec;
}

}  // namespace

absl::StatusOr<TokenizerKind> FindTokenizerKind(const std::filesystem::path& model_dir) {
  if (IsThere(model_dir / "tokenizer.json")) return TokenizerKind::kTokenizerJson;
  if (IsThere(model_dir / "tokenizer.model")) {
    TUTTI_ASSIGN_OR_RETURN(const json config, ReadConfig(model_dir));
    const bool chat_glm = config.value("tokenizer_class", json()) == json("ChatGLMTokenizer");
    return chat_glm ? TokenizerKind::kChatGlm : TokenizerKind::kSentencepiece;
  }
  if (IsThere(model_dir / "qwen.tiktoken")) return TokenizerKind::kTiktoken;
  if (IsThere(model_dir / "vocab.json")) return TokenizerKind::kVocabAndMerges;
  return absl::NotFoundError(
      absl::StrCat(model_dir.string(),
                   ": has no tokenizer: neither tokenizer.json, tokenizer.model, qwen.tiktoken nor "
                   "vocab.json with merges.txt"));
}

absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const std::filesystem::path& model_dir) {
  TUTTI_ASSIGN_OR_RETURN(const TokenizerKind kind, FindTokenizerKind(model_dir));
  TUTTI_ASSIGN_OR_RETURN(const json config, ReadConfig(model_dir));
  TUTTI_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadVocabulary(model_dir, kind, config));
  // The two families' own code says what they have beside the vocabulary.
  if (kind != TokenizerKind::kChatGlm && kind != TokenizerKind::kTiktoken) {
    TUTTI_RETURN_IF_ERROR(AddDescribedTokens(
        model_dir, config, /*vocabulary_decides=*/kind == TokenizerKind::kTokenizerJson, &spec));
  }
  return spec;
}

}  // namespace tutti::text
