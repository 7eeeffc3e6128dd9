#include "text/sentencepiece_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/byte_alphabet.h"
#include "text/character_map.h"
#include "text/limits.h"
#include "text/merge_rules.h"
#include "text/unicode.h"
#include "text/wire_reader.h"

namespace tutti::text {
namespace {

using Field = WireReader::Field;

// Field numbers and values of sentencepiece_model.proto.
constexpr int kModelPieces = 1, kModelTrainer = 2, kModelNormalizer = 3, kModelDenormalizer = 5;
constexpr int kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr int kTrainerModelType = 3, kTrainerSuffix = 24, kTrainerByteFallback = 35;
constexpr int kNormalizerCharsmap = 2, kNormalizerDummyPrefix = 3, kNormalizerExtraSpaces = 4,
              kNormalizerEscape = 5;
constexpr uint64_t kBytePairModel = 2;
enum PieceType : uint64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Piece {
  std::string_view text;
  float score = 0;
  uint64_t type = kNormal;
};

struct Model {
  std::vector<Piece> pieces;
  uint64_t model_type = 1;
  bool byte_fallback = false;
  bool space_behind_words = false;
  bool dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
  std::string_view charsmap;
  std::string_view denormalizer_charsmap;
};

absl::Status Refuse(std::string_view field, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(field), ": ", Absl(why)));
}

// Calls read(field) for each field of the message. Errors get `name` in front.
absl::Status ForEachField(std::string_view message, std::string_view name,
                          const std::function<absl::Status(const Field&)>& read) {
  WireReader reader(message);
  while (!reader.done()) {
    const auto field = reader.Next();
    const absl::Status status = field.ok() ? read(*field) : field.status();
    if (!status.ok()) return Annotate(status, name);
  }
  return absl::OkStatus();
}

absl::Status NeedType(const Field& field, WireReader::Type type) {
  if (field.type == type) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("field ", field.number, " has another type"));
}

absl::Status ReadBytes(const Field& field, std::string_view* out) {
  TUTTI_RETURN_IF_ERROR(NeedType(field, WireReader::Type::kBytes));
  *out = field.bytes;
  return absl::OkStatus();
}

absl::Status ReadBool(const Field& field, bool* out) {
  TUTTI_RETURN_IF_ERROR(NeedType(field, WireReader::Type::kVarint));
  *out = field.value != 0;
  return absl::OkStatus();
}

absl::Status ReadPiece(std::string_view message, Model* model) {
  if (model->pieces.size() >= static_cast<size_t>(kTokenIdMax)) {
    return Refuse("pieces", absl::StrCat("more than ", kTokenIdMax));
  }
  const std::string name = absl::StrCat("pieces[", model->pieces.size(), "]");
  Piece piece;
  TUTTI_RETURN_IF_ERROR(ForEachField(message, name, [&](const Field& field) -> absl::Status {
    switch (field.number) {
      case kPieceText:
        return ReadBytes(field, &piece.text);
      case kPieceScore:
        TUTTI_RETURN_IF_ERROR(NeedType(field, WireReader::Type::kFixed32));
        piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
        return absl::OkStatus();
      case kPieceType:
        TUTTI_RETURN_IF_ERROR(NeedType(field, WireReader::Type::kVarint));
        piece.type = field.value;
        return absl::OkStatus();
      default:
        return absl::OkStatus();
    }
  }));
  if (piece.text.empty()) return Refuse(name + ".piece", "empty");
  if (FindInvalidUtf8(piece.text).has_value()) return Refuse(name + ".piece", "not valid UTF-8");
  if (std::isnan(piece.score)) return Refuse(name + ".score", "not a number");
  if (piece.type < kNormal || piece.type > kByte || piece.type == kUnused) {
    return Refuse(name + ".type", absl::StrCat("value ", piece.type, " is not supported"));
  }
  model->pieces.push_back(piece);
  return absl::OkStatus();
}

absl::Status ReadTrainer(std::string_view message, Model* model) {
  return ForEachField(message, "trainer_spec", [&](const Field& field) -> absl::Status {
    switch (field.number) {
      case kTrainerModelType:
        TUTTI_RETURN_IF_ERROR(NeedType(field, WireReader::Type::kVarint));
        model->model_type = field.value;
        return absl::OkStatus();
      case kTrainerSuffix:
        return ReadBool(field, &model->space_behind_words);
      case kTrainerByteFallback:
        return ReadBool(field, &model->byte_fallback);
      default:
        return absl::OkStatus();
    }
  });
}

absl::Status ReadNormalizer(std::string_view message, Model* model) {
  return ForEachField(message, "normalizer_spec", [&](const Field& field) -> absl::Status {
    switch (field.number) {
      case kNormalizerCharsmap:
        return ReadBytes(field, &model->charsmap);
      case kNormalizerDummyPrefix:
        return ReadBool(field, &model->dummy_prefix);
      case kNormalizerExtraSpaces:
        return ReadBool(field, &model->remove_extra_spaces);
      case kNormalizerEscape:
        return ReadBool(field, &model->escape_spaces);
      default:
        return absl::OkStatus();
    }
  });
}

absl::StatusOr<Model> ReadModel(std::string_view message) {
  Model model;
  WireReader reader(message);
  while (!reader.done()) {
    TUTTI_ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number > kModelDenormalizer) continue;
    TUTTI_RETURN_IF_ERROR(NeedType(field, WireReader::Type::kBytes));
    if (field.number == kModelPieces) TUTTI_RETURN_IF_ERROR(ReadPiece(field.bytes, &model));
    if (field.number == kModelTrainer) TUTTI_RETURN_IF_ERROR(ReadTrainer(field.bytes, &model));
    if (field.number == kModelNormalizer) {
      TUTTI_RETURN_IF_ERROR(ReadNormalizer(field.bytes, &model));
    }
    if (field.number == kModelDenormalizer) {
      TUTTI_RETURN_IF_ERROR(
          ForEachField(field.bytes, "denormalizer_spec", [&](const Field& inner) -> absl::Status {
            return inner.number == kNormalizerCharsmap
                       ? ReadBytes(inner, &model.denormalizer_charsmap)
                       : absl::OkStatus();
          }));
    }
  }
  return model;
}

absl::Status CheckModel(const Model& model) {
  if (model.pieces.empty()) return Refuse("pieces", "there are none: not a sentencepiece model");
  if (model.model_type != kBytePairModel) {
    return Refuse("trainer_spec.model_type",
                  absl::StrCat("value ", model.model_type, " is not supported, only BPE (2)"));
  }
  if (!model.byte_fallback) {
    return Refuse("trainer_spec.byte_fallback", "false is not supported");
  }
  if (model.space_behind_words) {
    return Refuse("trainer_spec.treat_whitespace_as_suffix", "true is not supported");
  }
  if (!model.escape_spaces) {
    return Refuse("normalizer_spec.escape_whitespaces", "false is not supported");
  }
  if (!model.denormalizer_charsmap.empty()) {
    return Refuse("denormalizer_spec.precompiled_charsmap", "is not supported");
  }
  absl::flat_hash_set<std::string_view> seen;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (!seen.insert(model.pieces[id].text).second) {
      return Refuse(absl::StrCat("pieces[", id, "].piece"), "given twice");
    }
  }
  return absl::OkStatus();
}

// Pieces with the highest score are merged first; equal scores have equal ranks.
std::vector<uint32_t> RanksByScore(const std::vector<Piece>& pieces) {
  std::vector<float> scores;
  for (const Piece& piece : pieces) {
    if (piece.type == kNormal) scores.push_back(piece.score);
  }
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks;
  for (const Piece& piece : pieces) {
    if (piece.type != kNormal && piece.type != kByte) continue;
    const auto at = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    ranks.push_back(piece.type == kNormal ? static_cast<uint32_t>(at - scores.begin())
                                          : kNeverMerged);
  }
  return ranks;
}

}  // namespace

absl::StatusOr<TokenizerSpec> ParseSentencepiece(std::string_view message) {
  TUTTI_ASSIGN_OR_RETURN(const Model model, ReadModel(message));
  TUTTI_RETURN_IF_ERROR(CheckModel(model));
  TokenizerSpec spec;
  spec.spelling = Spelling::kSpaceMark;
  spec.file = "tokenizer.model";
  spec.normalization.mark_is_space = true;
  spec.normalization.collapse_spaces = model.remove_extra_spaces;
  if (!model.charsmap.empty()) {
    auto characters = CharacterMap::Parse(model.charsmap);
    if (!characters.ok()) {
      return Annotate(characters.status(), "normalizer_spec.precompiled_charsmap");
    }
    spec.normalization.characters = std::make_shared<const CharacterMap>(*std::move(characters));
  }
  if (model.dummy_prefix) {
    spec.normalization.prefix = TextNormalizer::SpacePrefix::kEveryStretch;
  }
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    if (piece.type == kNormal || piece.type == kByte) {
      if ((piece.type == kByte) != FallbackByte(piece.text).has_value()) {
        return Refuse(absl::StrCat("pieces[", i, "]"), "spells a byte and is of another type");
      }
      spec.vocabulary.emplace_back(piece.text, static_cast<int64_t>(i));
      continue;
    }
    if (spec.added_tokens.size() >= kAddedTokensMax || piece.text.size() > kAddedTokenBytesMax) {
      return Refuse(absl::StrCat("pieces[", i, "]"),
                    absl::StrCat("is one of more than ", kAddedTokensMax,
                                 " special pieces, or longer than ", kAddedTokenBytesMax));
    }
    const bool user_defined = piece.type == kUserDefined;
    if (user_defined && !model.charsmap.empty()) {
      // sentencepiece keeps their characters from being mapped; here they are looked for after it.
      return Refuse(absl::StrCat("pieces[", i, "].type"),
                    "a user defined piece is not supported with a precompiled_charsmap");
    }
    spec.added_tokens.push_back({.content = std::string(piece.text),
                                 .id = static_cast<TokenId>(i),
                                 .special = !user_defined,
                                 .normalized = user_defined});
  }
  spec.ranks = RanksByScore(model.pieces);
  return spec;
}

}  // namespace tutti::text
