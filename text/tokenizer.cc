#include "text/tokenizer.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "text/byte_alphabet.h"
#include "text/limits.h"
#include "text/merge_rules.h"
#include "text/text_break.h"
#include "text/tokenizer_files.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

// The order in which user and template text alternate in a joined prompt.
struct Run {
  size_t end = 0;
  bool from_user = false;
};

// The bytes that `spelled` stands for; nothing when that is not how the vocabulary spells.
std::optional<std::string> Unspell(Spelling spelling, std::string_view spelled) {
  if (spelled.empty()) return std::nullopt;
  switch (spelling) {
    case Spelling::kByteAlphabet:
      return BytesFromAlphabet(spelled);
    case Spelling::kBytes:
      return std::string(spelled);
    case Spelling::kSpaceMark:
      if (spelled.find(' ') != std::string_view::npos) return std::nullopt;
      return TextNormalizer({.mark_is_space = true}).Normalize(spelled, /*first=*/false);
  }
  return std::nullopt;
}

absl::StatusOr<Vocabulary> BuildVocabulary(const TokenizerSpec& spec) {
  absl::flat_hash_set<std::string_view> added;
  for (const AddedToken& token : spec.added_tokens) added.insert(token.content);
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(spec.vocabulary.size());
  for (const auto& [spelled, id] : spec.vocabulary) {
    // Its text is its spelling, not bytes.
    if (spec.spelling != Spelling::kBytes && added.contains(spelled)) continue;
    const std::optional<char> byte =
        spec.spelling == Spelling::kSpaceMark ? FallbackByte(spelled) : std::nullopt;
    std::optional<std::string> bytes =
        byte.has_value() ? std::string(1, *byte) : Unspell(spec.spelling, spelled);
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token \"", absl::Utf8SafeCHexEscape(spelled), "\" (", id,
                       ") is not spelled as in vocabularies of this kind"));
    }
    if (id < 0 || id > kTokenIdMax) {
      return absl::InvalidArgumentError(absl::StrCat("token \"", absl::Utf8SafeCHexEscape(spelled),
                                                     "\": id ", id, " is outside [0, ", kTokenIdMax,
                                                     "]"));
    }
    entries.push_back({*std::move(bytes), static_cast<TokenId>(id), byte.has_value()});
  }
  return Vocabulary::Create(std::move(entries));
}

absl::StatusOr<BytePairs::Rules> RulesFromMerges(const TokenizerSpec& spec,
                                                 const Vocabulary& vocabulary) {
  BytePairs::Rules rules;
  rules.from_characters = spec.spelling == Spelling::kSpaceMark;
  rules.merges.reserve(spec.merges.size());
  for (const auto& [left, right] : spec.merges) {
    const std::optional<std::string> left_bytes = Unspell(spec.spelling, left);
    const std::optional<std::string> right_bytes = Unspell(spec.spelling, right);
    const auto rank = static_cast<uint32_t>(rules.merges.size());
    if (left_bytes.has_value() && right_bytes.has_value()) {
      const auto left_id = vocabulary.Find(*left_bytes);
      const auto right_id = vocabulary.Find(*right_bytes);
      const auto merged_id = vocabulary.Find(*left_bytes + *right_bytes);
      if (left_id.has_value() && right_id.has_value() && merged_id.has_value()) {
        rules.merges.push_back({*left_id, *right_id, *merged_id, rank});
        continue;
      }
    }
    return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " (\"", left, "\", \"", right,
                                                   "\") is not of tokens and to a token"));
  }
  return rules;
}

absl::StatusOr<BytePairs::Rules> BuildRules(const TokenizerSpec& spec,
                                            const Vocabulary& vocabulary) {
  if (spec.ranks.empty()) return RulesFromMerges(spec, vocabulary);
  CHECK(spec.ranks.size() == spec.vocabulary.size());
  std::vector<uint32_t> ranks(vocabulary.size(), kNeverMerged);
  for (size_t i = 0; i < spec.ranks.size(); ++i) {
    const auto id = static_cast<TokenId>(spec.vocabulary[i].second);
    if (!vocabulary.Bytes(id).empty()) ranks[id] = spec.ranks[i];
  }
  return RulesFromRanks(vocabulary, ranks, spec.spelling == Spelling::kSpaceMark);
}

// The places where text is cut before pairs are merged. With spaces in front of words no merge ever
// spans the end of a word when no token has a space behind something else; then cutting there
// changes nothing and makes merging a matter of words instead of whole texts.
absl::StatusOr<Pretokenizer> BuildPretokenizer(const TokenizerSpec& spec,
                                               const Vocabulary& vocabulary) {
  if (spec.split_at_spaces) return Pretokenizer::AtSpaces(Pretokenizer::Spaces::kEvery);
  if (spec.spelling != Spelling::kSpaceMark) {
    return Pretokenizer::Create({spec.split_patterns.begin(), spec.split_patterns.end()});
  }
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view token = vocabulary.Bytes(id);
    const size_t word = std::min(token.find_first_not_of(' '), token.size());
    if (token.find(' ', word) != std::string_view::npos) {
      return Pretokenizer::AtSpaces(Pretokenizer::Spaces::kNone);
    }
  }
  return Pretokenizer::AtSpaces(Pretokenizer::Spaces::kBehindWords);
}

// Added tokens may also stand in the vocabulary, with the same id; no two may share an id or text.
absl::Status CheckAddedTokens(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  const bool changes_text = TextNormalizer(spec.normalization).ChangesText();
  absl::flat_hash_map<std::string_view, TokenId> by_content;
  absl::flat_hash_set<TokenId> ids;
  for (const AddedToken& token : spec.added_tokens) {
    if (!by_content.emplace(token.content, token.id).second || !ids.insert(token.id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("added token \"", token.content, "\" (", token.id, ") is given twice"));
    }
    if (token.id == kTextBreakId) continue;
    if (!vocabulary.Bytes(token.id).empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "added token \"", token.content, "\" has the id ", token.id, " of another token"));
    }
    if (token.special && token.normalized && changes_text) {
      // Normalization mixes text of the template with text of the user.
      return absl::InvalidArgumentError(
          absl::StrCat("added token \"", token.content,
                       "\" is special and normalized: not supported where text is normalized"));
    }
  }
  if (spec.spelling == Spelling::kBytes) return absl::OkStatus();  // two kinds of spelling
  for (const auto& [spelled, id] : spec.vocabulary) {
    const auto found = by_content.find(spelled);
    if (found != by_content.end() && found->second != id) {
      return absl::InvalidArgumentError(absl::StrCat("added token \"", spelled, "\" has id ",
                                                     found->second, " but id ", id,
                                                     " in the vocabulary"));
    }
  }
  return absl::OkStatus();
}

absl::flat_hash_map<TokenId, AddedToken> ById(const std::vector<AddedToken>& tokens) {
  absl::flat_hash_map<TokenId, AddedToken> by_id;
  for (const AddedToken& token : tokens) {
    if (token.id != kTextBreakId) by_id.emplace(token.id, token);
  }
  return by_id;
}

// Tokens looked for before normalization, or after it. Without normalization there is no
// difference.
std::vector<AddedToken> Select(const TokenizerSpec& spec, bool after) {
  const TextNormalizer normalizer(spec.normalization);
  std::vector<AddedToken> selected;
  for (const AddedToken& token : spec.added_tokens) {
    if ((token.normalized && normalizer.ChangesText()) != after) continue;
    selected.push_back(token);
    if (after) selected.back().content = normalizer.NormalizeToken(token.content);
    if (selected.back().content.empty()) selected.pop_back();  // nothing but spaces
  }
  return selected;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> AnnotateFile(
    absl::StatusOr<std::unique_ptr<Tokenizer>> result, const std::filesystem::path& file) {
  if (!result.ok()) return Annotate(result.status(), file.string());
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::filesystem::path& model_dir) {
  TUTTI_ASSIGN_OR_RETURN(TokenizerSpec spec, ReadTokenizerSpec(model_dir));
  const std::filesystem::path file = model_dir / spec.file;
  return AnnotateFile(Create(std::move(spec)), file);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  TUTTI_ASSIGN_OR_RETURN(Vocabulary vocabulary, BuildVocabulary(spec));
  TUTTI_RETURN_IF_ERROR(CheckAddedTokens(spec, vocabulary));
  TUTTI_ASSIGN_OR_RETURN(BytePairs::Rules rules, BuildRules(spec, vocabulary));
  rules.whole_words_first = spec.whole_words_first;
  TUTTI_ASSIGN_OR_RETURN(Pretokenizer pretokenizer, BuildPretokenizer(spec, vocabulary));
  return std::unique_ptr<Tokenizer>(new Tokenizer(
      BytePairs(std::move(vocabulary), std::move(rules)), std::move(pretokenizer), spec));
}

Tokenizer::Tokenizer(BytePairs byte_pairs, Pretokenizer pretokenizer, const TokenizerSpec& spec)
    : byte_pairs_(std::move(byte_pairs)),
      pretokenizer_(std::move(pretokenizer)),
      normalizer_(spec.normalization),
      added_(ById(spec.added_tokens)),
      raw_matcher_(Select(spec, /*after=*/false)),
      normalized_matcher_(Select(spec, /*after=*/true)),
      prompt_prefix_(spec.prompt_prefix),
      end_of_turn_(spec.end_of_turn),
      vocab_size_(byte_pairs_.vocabulary().size()) {
  for (const AddedToken& token : spec.added_tokens) {
    vocab_size_ = std::max(vocab_size_, token.id + 1);
  }
  const Vocabulary& vocabulary = byte_pairs_.vocabulary();
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    token_bytes_max_ = std::max(token_bytes_max_, vocabulary.Bytes(id).size());
  }
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::Encode(std::string_view text) const {
  const Segment segment{std::string(text), /*from_user=*/true};
  return EncodeSegments(std::span(&segment, 1));
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::EncodePrompt(std::string_view text,
                                                             PromptReading reading,
                                                             int64_t ids_max) const {
  // The spelling of a break is ours, and text like any other here.
  std::vector<Segment> segments;
  for (size_t at = 0; at < text.size();) {
    const size_t text_break = std::min(text.find(kTextBreak, at), text.size());
    segments.push_back(
        {std::string(text.substr(at, text_break - at)), /*from_user=*/reading.splits_special});
    at = std::min(text_break + kTextBreak.size(), text.size());
    segments.push_back({std::string(text.substr(text_break, at - text_break)), /*from_user=*/true});
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<TokenId> ids, EncodeSegments(segments, ids_max));
  if (reading.adds_prefix) {
    ids.insert(ids.begin(), prompt_prefix_.begin(), prompt_prefix_.end());
  }
  return ids;
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::EncodeSegments(std::span<const Segment> segments,
                                                               int64_t ids_max) const {
  std::string text;
  std::vector<Run> runs;
  for (const Segment& segment : segments) {
    if (segment.text.empty()) continue;
    if (segment.text.size() > kEncodeBytesMax - text.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("text has more than ", kEncodeBytesMax, " bytes"));
    }
    if (const auto invalid = FindInvalidUtf8(segment.text); invalid.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("text is not valid UTF-8 at byte ", text.size() + *invalid));
    }
    text += segment.text;
    if (runs.empty() || runs.back().from_user != segment.from_user) {
      runs.push_back({text.size(), segment.from_user});
    }
    runs.back().end = text.size();
  }

  std::vector<TokenId> ids;
  const auto guess = static_cast<int64_t>(text.size() / 3);
  ids.reserve(static_cast<size_t>(std::min(guess, ids_max)) + 1);
  size_t stretch = 0;  // where the text since the last added token begins
  size_t run = 0;
  size_t at = raw_matcher_.SkipTo(text, 0);
  while (at < text.size()) {
    while (runs[run].end <= at) ++run;
    const AddedToken* match = nullptr;
    for (const AddedToken* token : raw_matcher_.At(std::string_view(text).substr(at))) {
      const bool written_by_template =
          !runs[run].from_user && at + token->content.size() <= runs[run].end;
      if (!token->special || written_by_template) match = token;  // the longest that may be used
    }
    if (match == nullptr) {
      at = raw_matcher_.SkipTo(text, at + 1);
      continue;
    }
    const auto place = PlaceOf(*match, text, at, stretch);
    if (!place.has_value()) {
      at = raw_matcher_.SkipTo(text, at + match->content.size());
      continue;
    }
    TUTTI_RETURN_IF_ERROR(
        EncodeStretch(std::string_view(text).substr(stretch, place->begin - stretch), stretch == 0,
                      ids_max, &ids));
    if (match->id != kTextBreakId) ids.push_back(match->id);
    stretch = place->end;
    at = raw_matcher_.SkipTo(text, stretch);
  }
  TUTTI_RETURN_IF_ERROR(
      EncodeStretch(std::string_view(text).substr(stretch), stretch == 0, ids_max, &ids));
  return ids;
}

absl::Status Tokenizer::EncodeStretch(std::string_view text, bool first, int64_t ids_max,
                                      std::vector<TokenId>* ids) const {
  if (!normalizer_.ChangesText()) return EncodeOrdinary(text, ids_max, ids);
  const std::string normalized = normalizer_.Normalize(text, first);
  const std::string_view all = normalized;
  size_t stretch = 0;
  size_t at = normalized_matcher_.SkipTo(all, 0);
  while (at < all.size()) {
    const auto matches = normalized_matcher_.At(all.substr(at));
    if (matches.empty()) {
      at = normalized_matcher_.SkipTo(all, at + 1);
      continue;
    }
    const auto place = PlaceOf(*matches.back(), all, at, stretch);
    if (!place.has_value()) {
      at = normalized_matcher_.SkipTo(all, at + matches.back()->content.size());
      continue;
    }
    TUTTI_RETURN_IF_ERROR(
        EncodeOrdinary(all.substr(stretch, place->begin - stretch), ids_max, ids));
    ids->push_back(matches.back()->id);
    stretch = place->end;
    at = normalized_matcher_.SkipTo(all, stretch);
  }
  return EncodeOrdinary(all.substr(stretch), ids_max, ids);
}

absl::Status Tokenizer::EncodeOrdinary(std::string_view text, int64_t ids_max,
                                       std::vector<TokenId>* ids) const {
  // Ordinary tokens stand for their bytes: no text of so many bytes has fewer.
  const auto look_ahead = [&](size_t bytes) -> absl::Status {
    const size_t least = ids->size() + bytes / token_bytes_max_;
    if (static_cast<int64_t>(least) <= ids_max) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("more than ", ids_max, " tokens"));
  };
  TUTTI_RETURN_IF_ERROR(look_ahead(text.size()));
  TUTTI_RETURN_IF_ERROR(pretokenizer_.Split(text, [&](std::string_view piece) -> absl::Status {
    TUTTI_RETURN_IF_ERROR(look_ahead(piece.size()));
    byte_pairs_.Encode(piece, ids);
    return absl::OkStatus();
  }));
  return look_ahead(0);
}

std::optional<std::string_view> Tokenizer::TokenBytes(TokenId id) const {
  return IsSpecial(id) ? std::nullopt : TokenText(id);
}

std::optional<std::string_view> Tokenizer::TokenText(TokenId id) const {
  const auto added = added_.find(id);
  if (added != added_.end()) return added->second.content;
  const std::string_view bytes = byte_pairs_.vocabulary().Bytes(id);
  if (bytes.empty()) return std::nullopt;
  return bytes;
}

bool Tokenizer::IsSpecial(TokenId id) const {
  const auto added = added_.find(id);
  return added != added_.end() && added->second.special;
}

std::optional<TokenId> Tokenizer::SpecialId(std::string_view name) const {
  for (const auto& [id, token] : added_) {
    if (token.special && token.content == name) return id;
  }
  return std::nullopt;
}

}  // namespace tutti::text
