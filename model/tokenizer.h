// Text to token ids: byte-level byte pair encoding as Qwen and its kin use it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "model/added_tokens.h"
#include "model/byte_pairs.h"
#include "model/pretokenizer.h"
#include "model/segment.h"
#include "model/tokenizer_spec.h"

namespace tutti {

// Gives the ids HuggingFace tokenizers gives (checked against it by tests/golden/text), with one
// difference made on purpose: special tokens are never recognised in what a user wrote. Added
// tokens that are not special (<think>, <tool_call>) are recognised in any text, as there.
//
// Immutable after construction.  Thread: any, also several at once.
class Tokenizer {
 public:
  // Reads tokenizer.json of a model, or vocab.json with merges.txt. Errors: as ReadTokenizerSpec
  // and Create.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::filesystem::path& model_dir);

  // Errors: InvalidArgument naming file and field: a merge of unknown tokens, an id used twice, a
  // byte without a token, an added token that disagrees with the vocabulary.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);

  // The ids of text that a user wrote. Empty text has none.
  //
  // Errors: InvalidArgument naming the byte offset of invalid UTF-8, or for more than
  // kEncodeBytesMax bytes; ResourceExhausted when the model's split pattern cannot be matched in
  // bounded time.
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text) const;

  // The ids of the segments' text joined together. A special token is recognised where all of it
  // lies in text that is not from_user. Where no user text spells a special token, the ids are
  // those of the joined text.  Errors: as Encode; offsets count from the beginning of the joined
  // text.
  absl::StatusOr<std::vector<TokenId>> EncodeSegments(std::span<const Segment> segments) const;

  // One more than the largest id. A model's embedding may have more rows; those stand for no text.
  TokenId vocab_size() const { return vocab_size_; }

  // What the token stands for in text, as raw bytes: possibly a part of a character. Nothing for
  // special tokens and for ids that are not tokens.
  std::optional<std::string_view> TokenBytes(TokenId id) const;

  // The same, and the spelling of special tokens. Nothing for ids that are not tokens.
  std::optional<std::string_view> TokenText(TokenId id) const;

  bool IsSpecial(TokenId id) const;

  // The id of the special token spelled `name`, such as "<|im_end|>".
  std::optional<TokenId> SpecialId(std::string_view name) const;

 private:
  Tokenizer(BytePairs byte_pairs, Pretokenizer pretokenizer, std::vector<AddedToken> added,
            bool normalize_nfc);

  // Text between added tokens: normalizes it and finds added tokens of the normalized form.
  absl::Status EncodeStretch(std::string_view text, std::vector<TokenId>* ids) const;
  absl::Status EncodeOrdinary(std::string_view text, std::vector<TokenId>* ids) const;

  const BytePairs byte_pairs_;
  const Pretokenizer pretokenizer_;
  const bool normalize_nfc_;
  const absl::flat_hash_map<TokenId, AddedToken> added_;
  const AddedTokenMatcher raw_matcher_;         // in text as given
  const AddedTokenMatcher normalized_matcher_;  // in normalized text
  TokenId vocab_size_ = 0;
};

}  // namespace tutti
