#include "model/tokenizer_spec.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/absl_text.h"
#include "model/limits.h"
#include "model/split_pattern.h"
#include "model/text_file.h"
#include "model/vocabulary_json.h"

namespace tutti {
namespace {

using nlohmann::json;

absl::Status Refuse(std::string_view field, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(field), ": ", Absl(why)));
}

// A short picture of `value` for a message.
std::string Shown(const json& value) {
  constexpr size_t kShownMax = 60;
  std::string text = value.is_structured()
                         ? std::string(value.type_name())
                         : value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShownMax) text = text.substr(0, kShownMax) + "...";
  return text;
}

// A JSON object whose members must all be known, with its path for messages.
class Fields {
 public:
  static absl::StatusOr<Fields> Open(const json& value, std::string path,
                                     std::initializer_list<std::string_view> known) {
    if (!value.is_object()) return Refuse(path, absl::StrCat("not an object but ", Shown(value)));
    for (const auto& [name, member] : value.items()) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return Refuse(absl::StrCat(path, ".", name), "unknown field");
      }
    }
    return Fields(value, std::move(path));
  }

  std::string Path(std::string_view name) const { return absl::StrCat(path_, ".", Absl(name)); }

  // The member, null when absent.
  const json& Get(std::string_view name) const {
    static const json kNull;
    const auto found = value_->find(std::string(name));
    return found == value_->end() ? kNull : *found;
  }

  absl::StatusOr<bool> Bool(std::string_view name, bool absent) const {
    const json& value = Get(name);
    if (value.is_null()) return absent;
    if (!value.is_boolean())
      return Refuse(Path(name), absl::StrCat("not a bool but ", Shown(value)));
    return value.get<bool>();
  }
  absl::StatusOr<std::string> String(std::string_view name) const {
    const json& value = Get(name);
    if (!value.is_string()) {
      return Refuse(Path(name), absl::StrCat("not a string but ", Shown(value)));
    }
    return value.get<std::string>();
  }

  // OK when the member is absent, null or one of `harmless`.
  absl::Status MustBe(std::string_view name, std::initializer_list<json> harmless) const {
    const json& value = Get(name);
    if (value.is_null() || std::find(harmless.begin(), harmless.end(), value) != harmless.end()) {
      return absl::OkStatus();
    }
    return Refuse(Path(name), absl::StrCat("value ", Shown(value), " is not supported"));
  }

 private:
  Fields(const json& value, std::string path) : value_(&value), path_(std::move(path)) {}
  const json* value_;
  std::string path_;
};

// The member "type" of an object, or what stands in its place.
json TypeOf(const json& value) { return value.is_object() ? value.value("type", json()) : value; }

// Calls parse(element, path) for each element of a Sequence's list, or once for `value` itself.
template <typename Parse>
absl::Status ForEachInSequence(const json& value, const std::string& path, std::string_view list,
                               Parse parse) {
  if (TypeOf(value) != "Sequence") return parse(value, path);
  TUTTI_ASSIGN_OR_RETURN(const Fields fields, Fields::Open(value, path, {"type", list}));
  const json& elements = fields.Get(list);
  if (!elements.is_array()) return Refuse(fields.Path(list), "not a list");
  for (size_t i = 0; i < elements.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(parse(elements[i], absl::StrCat(path, ".", Absl(list), "[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status ReadNormalizer(const json& value, TokenizerSpec* spec) {
  if (value.is_null()) return absl::OkStatus();
  return ForEachInSequence(
      value, "normalizer", "normalizers",
      [&](const json& element, const std::string& path) -> absl::Status {
        TUTTI_ASSIGN_OR_RETURN(const Fields fields, Fields::Open(element, path, {"type"}));
        TUTTI_ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
        if (type != "NFC") {
          return Refuse(fields.Path("type"), absl::StrCat("\"", type, "\" is not supported"));
        }
        spec->normalize_nfc = true;
        return absl::OkStatus();
      });
}

absl::Status ReadSplit(const json& value, const std::string& path, TokenizerSpec* spec) {
  TUTTI_ASSIGN_OR_RETURN(const Fields fields,
                         Fields::Open(value, path, {"type", "pattern", "behavior", "invert"}));
  TUTTI_ASSIGN_OR_RETURN(const Fields pattern,
                         Fields::Open(fields.Get("pattern"), fields.Path("pattern"), {"Regex"}));
  TUTTI_ASSIGN_OR_RETURN(std::string regex, pattern.String("Regex"));
  TUTTI_RETURN_IF_ERROR(fields.MustBe("behavior", {"Isolated"}));
  if (fields.Get("behavior").is_null()) return Refuse(fields.Path("behavior"), "missing");
  TUTTI_RETURN_IF_ERROR(fields.MustBe("invert", {false}));
  TUTTI_RETURN_IF_ERROR(Annotate(TranslateSplitPattern(regex).status(), pattern.Path("Regex")));
  spec->split_patterns.push_back(std::move(regex));
  return absl::OkStatus();
}

absl::StatusOr<Fields> OpenByteLevel(const json& value, const std::string& path) {
  return Fields::Open(value, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

absl::Status ReadByteLevel(const json& value, const std::string& path, TokenizerSpec* spec) {
  TUTTI_ASSIGN_OR_RETURN(const Fields fields, OpenByteLevel(value, path));
  TUTTI_RETURN_IF_ERROR(fields.MustBe("add_prefix_space", {false}));
  TUTTI_ASSIGN_OR_RETURN(const bool use_regex, fields.Bool("use_regex", true));
  if (use_regex) spec->split_patterns.emplace_back(kByteLevelSplitPattern);
  return absl::OkStatus();
}

absl::Status ReadPreTokenizer(const json& value, TokenizerSpec* spec) {
  bool byte_level_seen = false;
  TUTTI_RETURN_IF_ERROR(ForEachInSequence(
      value, "pre_tokenizer", "pretokenizers",
      [&](const json& element, const std::string& path) -> absl::Status {
        if (byte_level_seen) return Refuse(path, "something after ByteLevel is not supported");
        const json type = TypeOf(element);
        if (type == "Split") return ReadSplit(element, path, spec);
        if (type != "ByteLevel") {
          return Refuse(path + ".type", absl::StrCat(Shown(type), " is not supported"));
        }
        byte_level_seen = true;
        return ReadByteLevel(element, path, spec);
      }));
  if (!byte_level_seen) return Refuse("pre_tokenizer", "has no ByteLevel");
  return absl::OkStatus();
}

// post_processor and decoder: there ByteLevel, however it is set, changes no ids, and decoding
// bytes is what the detokenizer does.
absl::Status ReadByteLevelOnly(const json& value, const std::string& field, std::string_view list) {
  return ForEachInSequence(value, field, list, [](const json& element, const std::string& path) {
    const json type = TypeOf(element);
    if (type != "ByteLevel") {
      return Refuse(path + ".type", absl::StrCat(Shown(type), " is not supported"));
    }
    return OpenByteLevel(element, path).status();
  });
}

// `value`: an element of added_tokens, or of added_tokens_decoder, where the id is the key.
absl::Status ReadAddedToken(const json& value, const std::string& path, std::optional<int64_t> id,
                            TokenizerSpec* spec) {
  TUTTI_ASSIGN_OR_RETURN(
      const Fields fields,
      Fields::Open(value, path,
                   {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  TUTTI_ASSIGN_OR_RETURN(token.content, fields.String("content"));
  if (token.content.empty() || token.content.size() > kAddedTokenBytesMax) {
    return Refuse(fields.Path("content"), absl::StrCat("has ", token.content.size(),
                                                       " bytes, not 1 to ", kAddedTokenBytesMax));
  }
  if (!id.has_value()) {
    const json& member = fields.Get("id");
    if (!member.is_number_integer()) return Refuse(fields.Path("id"), "not an integer");
    id = member.get<int64_t>();
  }
  if (*id < 0 || *id > kTokenIdMax) {
    return Refuse(fields.Path("id"), absl::StrCat(*id, " is outside [0, ", kTokenIdMax, "]"));
  }
  token.id = static_cast<TokenId>(*id);
  for (const std::string_view name : {"single_word", "lstrip", "rstrip"}) {
    TUTTI_RETURN_IF_ERROR(fields.MustBe(name, {false}));
  }
  TUTTI_ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
  TUTTI_ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", !token.special));
  if (spec->added_tokens.size() >= kAddedTokensMax) {
    return Refuse(path, absl::StrCat("more than ", kAddedTokensMax, " added tokens"));
  }
  spec->added_tokens.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status ReadModel(const json& value, const VocabularyJson& parsed, TokenizerSpec* spec) {
  TUTTI_ASSIGN_OR_RETURN(const Fields fields,
                         Fields::Open(value, "model",
                                      {"type", "dropout", "unk_token", "continuing_subword_prefix",
                                       "end_of_word_suffix", "fuse_unk", "byte_fallback",
                                       "ignore_merges", "vocab", "merges"}));
  // unk_token and fuse_unk do not matter: every byte has a token, so nothing is unknown.
  TUTTI_RETURN_IF_ERROR(fields.MustBe("type", {"BPE"}));
  TUTTI_RETURN_IF_ERROR(fields.MustBe("dropout", {0, 0.0}));
  TUTTI_RETURN_IF_ERROR(fields.MustBe("continuing_subword_prefix", {""}));
  TUTTI_RETURN_IF_ERROR(fields.MustBe("end_of_word_suffix", {""}));
  TUTTI_RETURN_IF_ERROR(fields.MustBe("byte_fallback", {false}));
  TUTTI_ASSIGN_OR_RETURN(spec->whole_words_first, fields.Bool("ignore_merges", false));
  if (!parsed.has_vocabulary) return Refuse("model.vocab", "missing or no object");
  if (!parsed.has_merges) return Refuse("model.merges", "missing or no list");
  return absl::OkStatus();
}

// The parts of a tokenizer_config.json that add to vocab.json and merges.txt.
absl::Status ReadTokenizerConfig(const json& config, TokenizerSpec* spec) {
  static constexpr std::array<std::string_view, 2> kClasses = {"Qwen2Tokenizer",
                                                               "Qwen2TokenizerFast"};
  if (!config.is_object()) return absl::InvalidArgumentError("not an object");
  const json type = config.value("tokenizer_class", json());
  if (!type.is_null() && std::find(kClasses.begin(), kClasses.end(), type) == kClasses.end()) {
    return Refuse("tokenizer_class",
                  absl::StrCat(Shown(type), " is not supported without a tokenizer.json"));
  }
  if (config.value("add_prefix_space", json(false)) == json(true)) {
    return Refuse("add_prefix_space", "true is not supported");
  }
  const json added = config.value("added_tokens_decoder", json::object());
  if (!added.is_object()) return Refuse("added_tokens_decoder", "not an object");
  for (const auto& [key, value] : added.items()) {
    const std::string path = absl::StrCat("added_tokens_decoder.", key);
    int64_t id = 0;
    if (!absl::SimpleAtoi(key, &id)) return Refuse(path, "not a token id");
    TUTTI_RETURN_IF_ERROR(ReadAddedToken(value, path, id, spec));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view text) {
  TUTTI_ASSIGN_OR_RETURN(VocabularyJson parsed, ParseVocabularyJson(text));
  TokenizerSpec spec;
  spec.file = "tokenizer.json";
  spec.vocabulary = std::move(parsed.vocabulary);
  spec.merges = std::move(parsed.merges);
  // Truncation and padding are left alone: transformers overrides what the file says with each
  // call's.
  TUTTI_ASSIGN_OR_RETURN(
      const Fields fields,
      Fields::Open(parsed.rest, "document",
                   {"version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"}));
  TUTTI_RETURN_IF_ERROR(ReadNormalizer(fields.Get("normalizer"), &spec));
  TUTTI_RETURN_IF_ERROR(ReadPreTokenizer(fields.Get("pre_tokenizer"), &spec));
  if (!fields.Get("post_processor").is_null()) {
    TUTTI_RETURN_IF_ERROR(
        ReadByteLevelOnly(fields.Get("post_processor"), "post_processor", "processors"));
  }
  TUTTI_RETURN_IF_ERROR(ReadByteLevelOnly(fields.Get("decoder"), "decoder", "decoders"));
  TUTTI_RETURN_IF_ERROR(ReadModel(fields.Get("model"), parsed, &spec));
  const json& added = fields.Get("added_tokens");
  if (!added.is_array() && !added.is_null()) return Refuse("added_tokens", "not a list");
  for (size_t i = 0; i < added.size(); ++i) {
    const std::string path = absl::StrCat("added_tokens[", i, "]");
    TUTTI_RETURN_IF_ERROR(ReadAddedToken(added[i], path, std::nullopt, &spec));
  }
  return spec;
}

absl::StatusOr<TokenizerSpec> ParseVocabAndMerges(std::string_view vocab_json,
                                                  std::string_view merges_txt) {
  auto parsed = ParseVocabJson(vocab_json);
  if (!parsed.ok()) return Annotate(parsed.status(), "vocab.json");
  TokenizerSpec spec;
  spec.file = "vocab.json";
  spec.vocabulary = std::move(parsed->vocabulary);
  spec.split_patterns.emplace_back(kQwen2SplitPattern);
  spec.normalize_nfc = true;
  size_t line_number = 0;
  while (!merges_txt.empty()) {
    const size_t end = std::min(merges_txt.find('\n'), merges_txt.size());
    std::string_view line = merges_txt.substr(0, end);
    merges_txt.remove_prefix(std::min(end + 1, merges_txt.size()));
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.substr(0, 8) == "#version") continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("merges.txt:", line_number, ": not two tokens with a space between"));
    }
    spec.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return spec;
}

absl::StatusOr<TokenizerSpec> ReadTokenizerSpec(const std::filesystem::path& model_dir) {
  const std::filesystem::path whole = model_dir / "tokenizer.json";
  std::error_code error;
  if (std::filesystem::exists(whole, error)) {
    TUTTI_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(whole, kTokenizerFileBytesMax));
    auto spec = ParseTokenizerJson(text);
    if (!spec.ok()) return Annotate(spec.status(), whole.string());
    return spec;
  }
  const std::filesystem::path vocab_path = model_dir / "vocab.json";
  if (!std::filesystem::exists(vocab_path, error)) {
    return absl::NotFoundError(
        absl::StrCat(model_dir.string(), ": has neither tokenizer.json nor vocab.json"));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string vocab, ReadTextFile(vocab_path, kTokenizerFileBytesMax));
  TUTTI_ASSIGN_OR_RETURN(const std::string merges,
                         ReadTextFile(model_dir / "merges.txt", kTokenizerFileBytesMax));
  auto spec = ParseVocabAndMerges(vocab, merges);
  if (!spec.ok()) return Annotate(spec.status(), model_dir.string());
  const std::filesystem::path config_path = model_dir / "tokenizer_config.json";
  if (std::filesystem::exists(config_path, error)) {
    TUTTI_ASSIGN_OR_RETURN(const json config, ReadJsonFile(config_path, kTextConfigFileBytesMax));
    TUTTI_RETURN_IF_ERROR(Annotate(ReadTokenizerConfig(config, &*spec), config_path.string()));
  }
  return spec;
}

}  // namespace tutti
