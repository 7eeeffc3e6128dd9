#include "text/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/added_token_json.h"
#include "text/limits.h"
#include "text/split_pattern.h"
#include "text/text_fields.h"
#include "text/unicode.h"
#include "text/vocabulary_json.h"

namespace tutti::text {
namespace {

using nlohmann::json;

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

absl::Status RefuseType(const json& type, const std::string& path) {
  return RefuseField(path + ".type", absl::StrCat(ShownJson(type), " is not supported"));
}

// The member "type" of an object, or the value itself if it is none.
json TypeOf(const json& value) { return value.is_object() ? value.value("type", json()) : value; }

// Calls parse(element, path) for each element of a Sequence's list, or once for `value` itself.
template <typename Parse>
absl::Status ForEachInSequence(const json& value, const std::string& path, std::string_view list,
                               Parse parse) {
  if (TypeOf(value) != "Sequence") return parse(value, path);
  TUTTI_ASSIGN_OR_RETURN(const TextFields fields, TextFields::Open(value, path, {"type", list}));
  const json& elements = fields.Get(list);
  if (!elements.is_array()) return RefuseField(fields.Path(list), "not a list");
  for (size_t i = 0; i < elements.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(parse(elements[i], absl::StrCat(path, ".", Absl(list), "[", i, "]")));
  }
  return absl::OkStatus();
}

// Replace of `from` by `to` and nothing else.
absl::Status CheckReplace(const json& value, const std::string& path, std::string_view from,
                          std::string_view to) {
  TUTTI_ASSIGN_OR_RETURN(const TextFields fields,
                         TextFields::Open(value, path, {"type", "pattern", "content"}));
  const json pattern = {{"String", from}};
  TUTTI_RETURN_IF_ERROR(fields.MustBe("pattern", {pattern}));
  TUTTI_RETURN_IF_ERROR(fields.MustBe("content", {json(to)}));
  if (fields.Get("pattern").is_null()) return RefuseField(fields.Path("pattern"), "missing");
  if (fields.Get("content").is_null()) return RefuseField(fields.Path("content"), "missing");
  return absl::OkStatus();
}

class Reader {
 public:
  explicit Reader(TokenizerSpec* spec) : spec_(spec) {}

  absl::Status ReadNormalizer(const json& value) {
    if (value.is_null()) return absl::OkStatus();
    TUTTI_RETURN_IF_ERROR(ForEachInSequence(value, "normalizer", "normalizers",
                                            [&](const json& element, const std::string& path) {
                                              return ReadNormalizerStep(element, path);
                                            }));
    if (prepends_ && !marks_spaces_) {
      return RefuseField("normalizer", "Prepend without Replace is not supported");
    }
    return absl::OkStatus();
  }

  absl::Status ReadPreTokenizer(const json& value) {
    if (value.is_null() && marks_spaces_) return absl::OkStatus();
    TUTTI_RETURN_IF_ERROR(ForEachInSequence(value, "pre_tokenizer", "pretokenizers",
                                            [&](const json& element, const std::string& path) {
                                              return ReadPreTokenizerStep(element, path);
                                            }));
    if (!byte_level_ && !marks_spaces_) {
      return RefuseField("pre_tokenizer", "has neither ByteLevel nor Metaspace");
    }
    return absl::OkStatus();
  }

  absl::Status ReadPostProcessor(const json& value) {
    if (value.is_null()) return absl::OkStatus();
    return ForEachInSequence(value, "post_processor", "processors",
                             [&](const json& element, const std::string& path) -> absl::Status {
                               const json type = TypeOf(element);
                               if (type == "TemplateProcessing") return ReadTemplate(element, path);
                               if (type != "ByteLevel") return RefuseType(type, path);
                               return OpenByteLevel(element, path).status();
                             });
  }

  // The work of a decoder follows from the kind; it only has to be the usual one.
  absl::Status ReadDecoder(const json& value) const {
    return ForEachInSequence(value, "decoder", "decoders",
                             [&](const json& element, const std::string& path) -> absl::Status {
                               const json type = TypeOf(element);
                               if (byte_level_ && type == "ByteLevel") {
                                 return OpenByteLevel(element, path).status();
                               }
                               if (!marks_spaces_) return RefuseType(type, path);
                               return CheckSpaceDecoder(element, type, path);
                             });
  }

  absl::Status ReadModel(const json& value, const VocabularyJson& parsed) {
    TUTTI_ASSIGN_OR_RETURN(
        const TextFields fields,
        TextFields::Open(
            value, "model",
            {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
             "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"}));
    // unk_token and fuse_unk do not matter: every byte has a token, so nothing is unknown.
    TUTTI_RETURN_IF_ERROR(fields.MustBe("type", {"BPE"}));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("dropout", {0, 0.0}));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("continuing_subword_prefix", {""}));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("end_of_word_suffix", {""}));
    TUTTI_ASSIGN_OR_RETURN(const bool byte_fallback, fields.Bool("byte_fallback", false));
    if (byte_fallback != marks_spaces_) {
      return RefuseField(fields.Path("byte_fallback"),
                         absl::StrCat("value ", byte_fallback ? "true" : "false",
                                      " is not supported with this pre_tokenizer"));
    }
    TUTTI_ASSIGN_OR_RETURN(spec_->whole_words_first, fields.Bool("ignore_merges", false));
    if (!parsed.has_vocabulary) return RefuseField("model.vocab", "missing or not an object");
    if (!parsed.has_merges) return RefuseField("model.merges", "missing or not a list");
    return absl::OkStatus();
  }

  bool marks_spaces() const { return marks_spaces_; }
  bool metaspace() const { return metaspace_; }

 private:
  absl::Status ReadNormalizerStep(const json& value, const std::string& path) {
    const json type = TypeOf(value);
    if (type == "NFC" && !marks_spaces_) {
      TUTTI_RETURN_IF_ERROR(TextFields::Open(value, path, {"type"}).status());
      spec_->normalization.nfc = true;
      return absl::OkStatus();
    }
    if (type == "Prepend" && !marks_spaces_ && !prepends_) {
      TUTTI_ASSIGN_OR_RETURN(const TextFields fields,
                             TextFields::Open(value, path, {"type", "prepend"}));
      TUTTI_ASSIGN_OR_RETURN(const std::string prepend, fields.String("prepend"));
      if (prepend != kMetaspace) {
        return RefuseField(fields.Path("prepend"),
                           absl::StrCat("\"", prepend, "\" is not supported"));
      }
      prepends_ = true;
      spec_->normalization.prefix = TextNormalizer::SpacePrefix::kEveryStretch;
      spec_->normalization.prefix_tokens = true;
      return absl::OkStatus();
    }
    if (type == "Replace" && !marks_spaces_) {
      TUTTI_RETURN_IF_ERROR(CheckReplace(value, path, " ", kMetaspace));
      MarkSpaces();
      return absl::OkStatus();
    }
    return RefuseType(type, path);
  }

  absl::Status ReadPreTokenizerStep(const json& value, const std::string& path) {
    const json type = TypeOf(value);
    if (byte_level_) return RefuseField(path, "something after ByteLevel is not supported");
    if (type == "Metaspace" && !marks_spaces_ && !spec_->normalization.nfc &&
        spec_->split_patterns.empty()) {
      return ReadMetaspace(value, path);
    }
    if (marks_spaces_) return RefuseType(type, path);
    if (type == "Split") return ReadSplit(value, path);
    if (type == "ByteLevel") return ReadByteLevel(value, path);
    return RefuseType(type, path);
  }

  absl::Status ReadSplit(const json& value, const std::string& path) {
    TUTTI_ASSIGN_OR_RETURN(
        const TextFields fields,
        TextFields::Open(value, path, {"type", "pattern", "behavior", "invert"}));
    TUTTI_ASSIGN_OR_RETURN(
        const TextFields pattern,
        TextFields::Open(fields.Get("pattern"), fields.Path("pattern"), {"Regex"}));
    TUTTI_ASSIGN_OR_RETURN(std::string regex, pattern.String("Regex"));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("behavior", {"Isolated"}));
    if (fields.Get("behavior").is_null()) return RefuseField(fields.Path("behavior"), "missing");
    TUTTI_RETURN_IF_ERROR(fields.MustBe("invert", {false}));
    TUTTI_RETURN_IF_ERROR(Annotate(TranslateSplitPattern(regex).status(), pattern.Path("Regex")));
    spec_->split_patterns.push_back(std::move(regex));
    return absl::OkStatus();
  }

  static absl::StatusOr<TextFields> OpenByteLevel(const json& value, const std::string& path) {
    return TextFields::Open(value, path, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  absl::Status ReadByteLevel(const json& value, const std::string& path) {
    TUTTI_ASSIGN_OR_RETURN(const TextFields fields, OpenByteLevel(value, path));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("add_prefix_space", {false}));
    TUTTI_ASSIGN_OR_RETURN(const bool use_regex, fields.Bool("use_regex", true));
    if (use_regex) spec_->split_patterns.emplace_back(kByteLevelSplitPattern);
    byte_level_ = true;
    return absl::OkStatus();
  }

  absl::Status ReadMetaspace(const json& value, const std::string& path) {
    TUTTI_ASSIGN_OR_RETURN(const TextFields fields,
                           TextFields::Open(value, path,
                                            {"type", "replacement", "prepend_scheme", "split",
                                             "add_prefix_space", "str_rep"}));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("replacement", {json(kMetaspace)}));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("str_rep", {json(kMetaspace)}));
    TUTTI_ASSIGN_OR_RETURN(spec_->split_at_spaces, fields.Bool("split", true));
    // Files older than prepend_scheme say add_prefix_space.
    TUTTI_ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
    json scheme = fields.Get("prepend_scheme");
    if (scheme.is_null()) scheme = add_prefix_space ? "always" : "never";
    TextNormalizer::Options& normalization = spec_->normalization;
    if (scheme == "always") {
      normalization.prefix = TextNormalizer::SpacePrefix::kEveryStretch;
    } else if (scheme == "first") {
      normalization.prefix = TextNormalizer::SpacePrefix::kFirstStretch;
    } else if (scheme != "never") {
      return RefuseField(fields.Path("prepend_scheme"),
                         absl::StrCat("value ", ShownJson(scheme), " is not supported"));
    }
    normalization.prefix_unless_space = true;
    metaspace_ = true;
    MarkSpaces();
    return absl::OkStatus();
  }

  void MarkSpaces() {
    marks_spaces_ = true;
    spec_->spelling = Spelling::kSpaceMark;
    spec_->normalization.mark_is_space = true;
  }

  // The tokens a template puts before a single text; none may stand behind it.
  absl::Status ReadTemplate(const json& value, const std::string& path) {
    TUTTI_ASSIGN_OR_RETURN(
        const TextFields fields,
        TextFields::Open(value, path, {"type", "single", "pair", "special_tokens"}));
    const json& single = fields.Get("single");
    if (!single.is_array()) return RefuseField(fields.Path("single"), "not a list");
    bool text_seen = false;
    for (size_t i = 0; i < single.size(); ++i) {
      const std::string at = absl::StrCat(fields.Path("single"), "[", i, "]");
      if (single[i].is_object() && single[i].contains("Sequence") && !text_seen) {
        text_seen = true;
        continue;
      }
      if (text_seen) return RefuseField(at, "a token behind the text is not supported");
      TUTTI_ASSIGN_OR_RETURN(const TextFields piece,
                             TextFields::Open(single[i], at, {"SpecialToken"}));
      TUTTI_ASSIGN_OR_RETURN(const TextFields special,
                             TextFields::Open(piece.Get("SpecialToken"), piece.Path("SpecialToken"),
                                              {"id", "type_id"}));
      TUTTI_ASSIGN_OR_RETURN(const std::string name, special.String("id"));
      TUTTI_RETURN_IF_ERROR(AppendTemplateToken(fields, name));
    }
    if (!text_seen) return RefuseField(fields.Path("single"), "has no place for the text");
    return absl::OkStatus();
  }

  absl::Status AppendTemplateToken(const TextFields& fields, const std::string& name) {
    const std::string path = absl::StrCat(fields.Path("special_tokens"), ".", name);
    const json& table = fields.Get("special_tokens");
    const json entry = table.is_object() ? table.value(name, json()) : json();
    const json ids = entry.is_object() ? entry.value("ids", json()) : json();
    if (!ids.is_array()) return RefuseField(path, "has no list of ids");
    for (const json& id : ids) {
      if (!id.is_number_integer() || id < 0 || id > kTokenIdMax ||
          spec_->prompt_prefix.size() >= kPromptPrefixTokensMax) {
        return RefuseField(
            path + ".ids",
            absl::StrCat("element ", ShownJson(id), " is not a token id, or there are too many"));
      }
      spec_->prompt_prefix.push_back(id.get<TokenId>());
    }
    return absl::OkStatus();
  }

  absl::Status CheckSpaceDecoder(const json& value, const json& type,
                                 const std::string& path) const {
    if (type == "Replace") return CheckReplace(value, path, kMetaspace, " ");
    if (type == "ByteFallback" || type == "Fuse") {
      return TextFields::Open(value, path, {"type"}).status();
    }
    if (type == "Metaspace") {
      TUTTI_ASSIGN_OR_RETURN(const TextFields fields,
                             TextFields::Open(value, path,
                                              {"type", "replacement", "prepend_scheme", "split",
                                               "add_prefix_space", "str_rep"}));
      return fields.MustBe("replacement", {json(kMetaspace)});
    }
    if (type != "Strip") return RefuseType(type, path);
    TUTTI_ASSIGN_OR_RETURN(const TextFields fields,
                           TextFields::Open(value, path, {"type", "content", "start", "stop"}));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("content", {" "}));
    TUTTI_RETURN_IF_ERROR(fields.MustBe("start", {0, 1}));
    return fields.MustBe("stop", {0});
  }

  TokenizerSpec* const spec_;
  bool prepends_ = false;
  bool metaspace_ = false;
  bool marks_spaces_ = false;  // by U+2581
  bool byte_level_ = false;
};

}  // namespace

absl::StatusOr<TokenizerSpec> ParseTokenizerJson(std::string_view text) {
  json rest;
  TUTTI_ASSIGN_OR_RETURN(VocabularyJson parsed, ParseVocabularyJson(text, &rest));
  TokenizerSpec spec;
  spec.file = "tokenizer.json";
  spec.vocabulary = std::move(parsed.vocabulary);
  spec.merges = std::move(parsed.merges);
  // Truncation and padding are left alone: transformers overrides the file's with each
  // call's.
  TUTTI_ASSIGN_OR_RETURN(
      const TextFields fields,
      TextFields::Open(rest, "document",
                       {"version", "truncation", "padding", "added_tokens", "normalizer",
                        "pre_tokenizer", "post_processor", "decoder", "model"}));
  Reader reader(&spec);
  TUTTI_RETURN_IF_ERROR(reader.ReadNormalizer(fields.Get("normalizer")));
  TUTTI_RETURN_IF_ERROR(reader.ReadPreTokenizer(fields.Get("pre_tokenizer")));
  TUTTI_RETURN_IF_ERROR(reader.ReadPostProcessor(fields.Get("post_processor")));
  TUTTI_RETURN_IF_ERROR(reader.ReadDecoder(fields.Get("decoder")));
  TUTTI_RETURN_IF_ERROR(reader.ReadModel(fields.Get("model"), parsed));
  const json& added = fields.Get("added_tokens");
  if (!added.is_array() && !added.is_null()) return RefuseField("added_tokens", "not a list");
  for (size_t i = 0; i < added.size(); ++i) {
    const std::string path = absl::StrCat("added_tokens[", i, "]");
    TUTTI_RETURN_IF_ERROR(ReadAddedToken(added[i], path, std::nullopt, &spec));
    AddedToken& token = spec.added_tokens.back();
    // A Metaspace comes after added tokens are found. And where transformers loads a file in which
    // special tokens are to be normalized it says itself that they are not.
    if (reader.metaspace() || (reader.marks_spaces() && token.special)) token.normalized = false;
  }
  return spec;
}

}  // namespace tutti::text
