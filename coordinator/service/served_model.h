// The model as the coordinator knows it: its facts, its tokenizer, its chat template, its authors'
// defaults. No weights.
//
// Thread: immutable after Load; any thread may read.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/checkpoint.h"
#include "model/generation_config.h"
#include "model/model_config.h"
#include "model/quantise_choice.h"
#include "proto/peer_messages.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

struct ServedModel {
  std::string name;
  std::vector<std::string> other_names;                 // that requests may give as well
  std::string fingerprint;                              // of the checkpoint
  std::shared_ptr<const model::Checkpoint> checkpoint;  // its headers
  model::ModelConfig config;
  model::GenerationConfig generation;
  std::unique_ptr<text::Tokenizer> tokenizer;  // null: the checkpoint has none; ids only
  // The texts of its tokens, for grammars; null: it has no tokenizer, or too many of them.
  std::shared_ptr<const v1::Vocabulary> vocabulary;
  // Or why chat prompts are refused: the checkpoint has none, or one that cannot be compiled.
  absl::StatusOr<text::ChatTemplate> chat_template = absl::NotFoundError("none");
  int32_t max_model_len = 0;
  bool has_draft = false;  // a draft model is served beside it, for requests that want one

  // `names`: with commas between them; empty: the last component of `dir`. `max_model_len` 0: the
  // model's own context.
  // `chat_template`: a file to use instead of the checkpoint's own template, which must then be
  // one that can be compiled; empty: the checkpoint's own.
  static absl::StatusOr<std::unique_ptr<ServedModel>> Load(const std::filesystem::path& dir,
                                                           const std::string& names,
                                                           int32_t max_model_len,
                                                           const std::string& chat_template = "");

  // Of what is served: other codes give other answers.
  std::string ServedFingerprint() const { return model::ServedFingerprint(fingerprint, config); }

  // Token ids of a text or a conversation. INVALID_ARGUMENT names the field below `path`;
  // OUT_OF_RANGE as soon as it is certain that there are more than `ids_max`.
  absl::StatusOr<std::vector<TokenId>> EncodeText(const std::string& text,
                                                  const v1::TextReading& reading,
                                                  const std::string& path,
                                                  int64_t ids_max = text::Tokenizer::kAllIds) const;
  absl::StatusOr<std::vector<TokenId>> EncodeChat(const v1::ChatMessages& chat,
                                                  const std::string& path,
                                                  int64_t ids_max = text::Tokenizer::kAllIds) const;

 private:
  absl::Status SetNames(const std::filesystem::path& dir, const std::string& names);
  absl::Status LoadTokenizer(const std::filesystem::path& dir);
  absl::Status LoadTemplate(const std::filesystem::path& dir, const std::string& file);
  // FAILED_PRECONDITION where there is no tokenizer.
  absl::Status CheckHasTokenizer(const std::string& path) const;
  absl::Status CheckHasRows(std::span<const TokenId> ids, const std::string& path) const;
};

// INVALID_ARGUMENT naming `path` for an id that the vocabulary does not have.
absl::Status CheckTokenId(int64_t id, const ServedModel& model, const std::string& path);

}  // namespace tutti::coordinator
