#include "coordinator/service/served_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/plain_name.h"
#include "coordinator/limits.h"
#include "coordinator/service/chat_messages.h"
#include "model/config_json.h"
#include "model/fingerprint.h"

namespace tutti::coordinator {
absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Load(const std::filesystem::path& dir,
                                                               const std::string& name,
                                                               int32_t max_model_len) {
  auto model = std::make_unique<ServedModel>();
  model->name = name;
  if (model->name.empty()) {
    const std::filesystem::path clean = std::filesystem::absolute(dir).lexically_normal();
    model->name = clean.has_filename() ? clean.filename() : clean.parent_path().filename();
  }
  if (!IsPlainName(model->name)) {
    return absl::InvalidArgumentError(absl::StrCat("model name '", model->name,
                                                   "' must match [A-Za-z0-9._-]{1,128}; ",
                                                   "choose another with --served-model-name"));
  }
  TUTTI_ASSIGN_OR_RETURN(model->config, model::LoadModelConfig(dir.string()));
  TUTTI_ASSIGN_OR_RETURN(model->generation,
                         model::LoadGenerationConfig(dir.string(), model->config));
  TUTTI_ASSIGN_OR_RETURN(model->checkpoint, model::Checkpoint::Open(dir.string()));
  TUTTI_ASSIGN_OR_RETURN(model->fingerprint, model::ModelFingerprint(*model->checkpoint));
  TUTTI_ASSIGN_OR_RETURN(model->tokenizer, text::Tokenizer::Load(dir));
  if (model->tokenizer->vocab_size() > model->config.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir.string(), ": the tokenizer has ", model->tokenizer->vocab_size(),
                     " tokens, config.json's vocab_size is ", model->config.vocab_size));
  }
  // Families whose configuration names only the end of text end a turn with other tokens.
  std::vector<int32_t>& ends = model->generation.eos_token_ids;
  for (const TokenId id : model->tokenizer->end_of_turn()) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }
  absl::StatusOr<text::ChatTemplate> chat_template = text::LoadChatTemplate(dir);
  if (chat_template.ok()) {
    model->chat_template = std::move(*chat_template);
  } else if (!absl::IsNotFound(chat_template.status())) {
    return chat_template.status();
  }
  const int64_t context = model->config.max_position_embeddings;
  if (max_model_len > context) {
    return absl::InvalidArgumentError(absl::StrCat("--max-model-len ", max_model_len,
                                                   " exceeds the model's context of ", context));
  }
  model->max_model_len = max_model_len > 0 ? max_model_len : static_cast<int32_t>(context);
  return model;
}

absl::StatusOr<std::vector<TokenId>> ServedModel::EncodeText(const std::string& text,
                                                             const std::string& path,
                                                             int64_t ids_max) const {
  if (static_cast<int64_t>(text.size()) > kPromptBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", text.size(), " bytes, the limit is ", kPromptBytesMax));
  }
  absl::StatusOr<std::vector<TokenId>> ids = tokenizer->EncodePrompt(text, ids_max);
  if (!ids.ok()) return Annotate(ids.status(), path);
  return ids;
}

absl::StatusOr<std::vector<TokenId>> ServedModel::EncodeChat(const v1::ChatMessages& chat,
                                                             const std::string& path,
                                                             int64_t ids_max) const {
  if (!chat_template) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": model '", name, "' has no chat template; send the prompt as text or token_ids"));
  }
  TUTTI_ASSIGN_OR_RETURN(const nlohmann::ordered_json messages, ChatMessagesJson(chat, path));
  TUTTI_ASSIGN_OR_RETURN(const nlohmann::ordered_json kwargs, TemplateKwargsJson(chat, path));
  absl::StatusOr<std::vector<text::Segment>> segments =
      chat_template->Render(messages, kwargs, absl::Now());
  if (!segments.ok()) return Annotate(segments.status(), path);
  absl::StatusOr<std::vector<TokenId>> ids = tokenizer->EncodeSegments(*segments, ids_max);
  if (!ids.ok()) return Annotate(ids.status(), path);
  return ids;
}

}  // namespace tutti::coordinator
