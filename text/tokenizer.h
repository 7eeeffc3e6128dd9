// Text to token ids: byte pair encoding, byte-level or from characters with a fallback to bytes.
#pragma once

#include <cstdint>
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
#include "text/added_tokens.h"
#include "text/byte_pairs.h"
#include "text/pretokenizer.h"
#include "text/segment.h"
#include "text/text_normalizer.h"
#include "text/tokenizer_spec.h"

namespace tutti::text {

// Gives the ids HuggingFace tokenizers gives (checked against it by tests/golden/text), with one
// difference made on purpose: special tokens are never recognised in a user's text in a
// conversation. Added tokens that are not special (<think>, <tool_call>) are recognised in any
// text, as there.
//
// Immutable after construction.  Thread: any, also several at once.
class Tokenizer {
 public:
  // Reads the tokenizer of a model, of any kind (tokenizer_spec.h). Errors: as
  // ReadTokenizerSpec and Create.
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

  // No bound on the ids of a text.
  static constexpr int64_t kAllIds = INT64_MAX;

  // The ids of a text that is a whole prompt, rendered by whoever sends it: special tokens that it
  // spells are those tokens, and before it come the ids that the model's authors put before every
  // prompt ("<s>"). Either can be left out.  Errors: as EncodeSegments.
  struct PromptReading {
    bool splits_special = false;  // into ordinary text
    bool adds_prefix = true;
  };
  absl::StatusOr<std::vector<TokenId>> EncodePrompt(std::string_view text, PromptReading reading,
                                                    int64_t ids_max = kAllIds) const;
  absl::StatusOr<std::vector<TokenId>> EncodePrompt(std::string_view text,
                                                    int64_t ids_max = kAllIds) const {
    return EncodePrompt(text, PromptReading(), ids_max);
  }

  // The ids of the segments' text joined together. A special token is recognised where all of it
  // lies in text that is not from_user. Where no user text spells a special token, the ids are
  // those of the joined text.
  //
  // Errors: as Encode; offsets count from the beginning of the joined text. OutOfRange as soon as
  // it is certain that there are more than `ids_max` ids, which is often before most of the work.
  absl::StatusOr<std::vector<TokenId>> EncodeSegments(std::span<const Segment> segments,
                                                      int64_t ids_max = kAllIds) const;

  // One more than the largest id. A model's embedding may have more rows; those stand for no text.
  TokenId vocab_size() const { return vocab_size_; }

  // The token's text as raw bytes: possibly a part of a character. Nothing for
  // special tokens and for ids that are not tokens.
  std::optional<std::string_view> TokenBytes(TokenId id) const;

  // The same, and the spelling of special tokens. Nothing for ids that are not tokens.
  std::optional<std::string_view> TokenText(TokenId id) const;

  bool IsSpecial(TokenId id) const;

  // Whether the text of a text's tokens may have a space in front that the text has not.
  bool AddsSpace() const { return normalizer_.AddsSpace(); }

  // Tokens that end the model's turn in a conversation and are not in the model's configuration.
  const std::vector<TokenId>& end_of_turn() const { return end_of_turn_; }

  // The id of the special token spelled `name`, such as "<|im_end|>".
  std::optional<TokenId> SpecialId(std::string_view name) const;

 private:
  Tokenizer(BytePairs byte_pairs, Pretokenizer pretokenizer, const TokenizerSpec& spec);

  // Text between added tokens: normalizes it and finds added tokens of the normalized form.
  absl::Status EncodeStretch(std::string_view text, bool first, int64_t ids_max,
                             std::vector<TokenId>* ids) const;
  absl::Status EncodeOrdinary(std::string_view text, int64_t ids_max,
                              std::vector<TokenId>* ids) const;

  const BytePairs byte_pairs_;
  const Pretokenizer pretokenizer_;
  const TextNormalizer normalizer_;
  const absl::flat_hash_map<TokenId, AddedToken> added_;
  const AddedTokenMatcher raw_matcher_;         // in text as given
  const AddedTokenMatcher normalized_matcher_;  // in normalized text
  const std::vector<TokenId> prompt_prefix_;
  const std::vector<TokenId> end_of_turn_;
  TokenId vocab_size_ = 0;
  size_t token_bytes_max_ = 1;  // of the longest token that is not added
};

}  // namespace tutti::text
