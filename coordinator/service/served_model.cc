#include "coordinator/service/served_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/plain_name.h"
#include "coordinator/service/chat_messages.h"
#include "coordinator/service/continued_message.h"
#include "coordinator/service/model_vocabulary.h"
#include "door/limits.h"
#include "model/config_json.h"
#include "model/fingerprint.h"
#include "model/hub_cache.h"
#include "model/model_folder.h"
#include "model/weight_map.h"
#include "spdlog/spdlog.h"
#include "text/template_check.h"

namespace tutti::coordinator {

absl::Status ServedModel::SetNames(const std::filesystem::path& dir, const std::string& names) {
  std::vector<std::string> all;
  for (const absl::string_view one : absl::StrSplit(names, ',', absl::SkipWhitespace())) {
    all.emplace_back(absl::StripAsciiWhitespace(one));
  }
  if (all.empty()) all.push_back(model::NameOfModel(dir.string()));
  for (const std::string& one : all) {
    if (IsModelName(one)) continue;
    return absl::InvalidArgumentError(absl::StrCat("model name '", one,
                                                   "' must match [A-Za-z0-9._:/@+-]{1,256}; ",
                                                   "choose another with --served-model-name"));
  }
  name = all.front();
  other_names.assign(all.begin() + 1, all.end());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Load(const std::filesystem::path& dir,
                                                               const std::string& names,
                                                               int32_t max_model_len,
                                                               const std::string& chat_template) {
  TUTTI_RETURN_IF_ERROR(Annotate(model::CheckModelFolder(dir.string()), "--model"));
  auto model = std::make_unique<ServedModel>();
  TUTTI_RETURN_IF_ERROR(model->SetNames(dir, names));
  TUTTI_ASSIGN_OR_RETURN(model->config, model::LoadModelConfig(dir.string()));
  TUTTI_ASSIGN_OR_RETURN(model->generation,
                         model::LoadGenerationConfig(dir.string(), model->config));
  TUTTI_ASSIGN_OR_RETURN(model->checkpoint, model::Checkpoint::Open(dir.string()));
  if (model->checkpoint->ignores_shards()) {
    spdlog::warn(
        "model '{}': model.safetensors is read, model.safetensors.index.json and its shards are "
        "not; remove what is left of another save",
        model->name);
  }
  if (const absl::Status fits = model::CheckCheckpoint(model->config, *model->checkpoint);
      !fits.ok()) {
    return absl::Status(
        fits.code(), absl::StrCat(fits.message(),
                                  "; the checkpoint must be whole, and that of its config.json"));
  }
  TUTTI_RETURN_IF_ERROR(model::CheckTiedHead(model->config, *model->checkpoint));
  if (const std::string converted = model::DescribeConversion(model->config, *model->checkpoint);
      !converted.empty()) {
    spdlog::warn("model '{}': {}", model->name, converted);
  }
  TUTTI_ASSIGN_OR_RETURN(model->fingerprint, model::ModelFingerprint(*model->checkpoint));
  TUTTI_RETURN_IF_ERROR(model->LoadTokenizer(dir));
  TUTTI_RETURN_IF_ERROR(model->LoadTemplate(dir, chat_template));
  const int64_t context = model->config.max_position_embeddings;
  if (max_model_len > context) {
    return absl::InvalidArgumentError(absl::StrCat("--max-model-len ", max_model_len,
                                                   " exceeds the model's context of ", context,
                                                   "; give that at most"));
  }
  model->max_model_len = max_model_len > 0 ? max_model_len : static_cast<int32_t>(context);
  return model;
}

absl::Status ServedModel::LoadTokenizer(const std::filesystem::path& dir) {
  absl::StatusOr<std::unique_ptr<text::Tokenizer>> loaded = text::Tokenizer::Load(dir);
  if (absl::IsNotFound(loaded.status())) {
    spdlog::warn("model '{}': only token ids are served: {}", name,
                 std::string(loaded.status().message()));
    return absl::OkStatus();
  }
  if (!loaded.ok()) return loaded.status();
  tokenizer = *std::move(loaded);
  if (tokenizer->vocab_size() > config.vocab_size) {
    spdlog::warn(
        "model '{}': the tokenizer has {} tokens, config.json's vocab_size is {}: prompts with the "
        "others are refused, and they are never drawn",
        name, tokenizer->vocab_size(), config.vocab_size);
  }
  // Families whose configuration names only the end of text end a turn with other tokens.
  std::vector<int32_t>& ends = generation.eos_token_ids;
  for (const TokenId id : tokenizer->end_of_turn()) {
    if (id < config.vocab_size && std::find(ends.begin(), ends.end(), id) == ends.end())
      ends.push_back(id);
  }
  vocabulary = VocabularyOf(*tokenizer, ends, config.vocab_size);
  return absl::OkStatus();
}

absl::Status ServedModel::LoadTemplate(const std::filesystem::path& dir, const std::string& file) {
  chat_template = text::LoadChatTemplate(dir, file);
  const absl::Status& why = chat_template.status();
  if (why.ok() && tokenizer != nullptr) {
    for (const std::string& fault :
         text::TemplateFaults(*chat_template, *tokenizer, generation.eos_token_ids)) {
      spdlog::warn("model '{}': {}", name, fault);
    }
  }
  if (why.ok()) return why;
  if (!file.empty()) return Annotate(why, "--chat-template");
  if (tokenizer != nullptr) {
    spdlog::warn("model '{}': chats are refused, text and token ids are served: {}{}", name,
                 std::string(why.message()),
                 absl::IsNotFound(why) ? "" : "; another template: --chat-template FILE");
  }
  return absl::OkStatus();
}

absl::Status ServedModel::CheckHasTokenizer(const std::string& path) const {
  if (tokenizer != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": model '", name, "' has no tokenizer files; send the prompt as token_ids"));
}

// Some checkpoints have tokens for which their embedding has no row.
absl::Status ServedModel::CheckHasRows(std::span<const TokenId> ids,
                                       const std::string& path) const {
  if (tokenizer->vocab_size() <= config.vocab_size) return absl::OkStatus();
  const auto without =
      std::find_if(ids.begin(), ids.end(), [this](TokenId id) { return id >= config.vocab_size; });
  if (without == ids.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has the token \"", std::string(tokenizer->TokenText(*without).value_or("")), "\" (",
      *without, "), and the model has rows for ids 0 to ", config.vocab_size - 1));
}

absl::StatusOr<std::vector<TokenId>> ServedModel::EncodeText(const std::string& text,
                                                             const v1::TextReading& reading,
                                                             const std::string& path,
                                                             int64_t ids_max) const {
  TUTTI_RETURN_IF_ERROR(CheckHasTokenizer(path));
  if (static_cast<int64_t>(text.size()) > door::kPromptBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", text.size(), " bytes, the limit is ", door::kPromptBytesMax));
  }
  absl::StatusOr<std::vector<TokenId>> ids =
      tokenizer->EncodePrompt(text,
                              {.splits_special = reading.split_special_tokens(),
                               .adds_prefix = !reading.omit_special_tokens()},
                              ids_max);
  if (!ids.ok()) return Annotate(ids.status(), path);
  TUTTI_RETURN_IF_ERROR(CheckHasRows(*ids, path));
  return ids;
}

absl::StatusOr<std::vector<TokenId>> ServedModel::EncodeChat(const v1::ChatMessages& chat,
                                                             const std::string& path,
                                                             int64_t ids_max) const {
  TUTTI_RETURN_IF_ERROR(CheckHasTokenizer(path));
  if (!chat_template.ok()) {
    const bool none = absl::IsNotFound(chat_template.status());
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": model '", name, "' has ",
                     none ? "no chat template"
                          : absl::StrCat("a chat template that cannot be used (",
                                         chat_template.status().message(), ")"),
                     "; send the prompt as text or token_ids"));
  }
  TUTTI_ASSIGN_OR_RETURN(text::TemplateJson messages, ChatMessagesJson(chat, path));
  TUTTI_ASSIGN_OR_RETURN(const text::TemplateJson kwargs, TemplateKwargsJson(chat, path));
  const std::string continuing = path + ".continue_final_message";
  if (chat.continue_final_message()) {
    if (!chat.omit_generation_prompt()) {
      return absl::InvalidArgumentError(absl::StrCat(
          continuing, " needs ", path,
          ".omit_generation_prompt: the prompt ends with the last message or opens another"));
    }
    MarkEnd(&*messages);
  }
  absl::StatusOr<std::vector<text::Segment>> segments =
      chat_template->Render(*messages, *kwargs, absl::Now());
  if (!segments.ok()) return Annotate(segments.status(), path);
  if (chat.continue_final_message()) {
    const std::string& content = chat.messages(chat.messages_size() - 1).content();
    TUTTI_RETURN_IF_ERROR(CutAtMark(content, continuing, &*segments));
  }
  absl::StatusOr<std::vector<TokenId>> ids = tokenizer->EncodeSegments(*segments, ids_max);
  if (!ids.ok()) return Annotate(ids.status(), path);
  TUTTI_RETURN_IF_ERROR(CheckHasRows(*ids, path));
  return ids;
}

absl::Status CheckTokenId(int64_t id, const ServedModel& model, const std::string& path) {
  if (id >= 0 && id < model.config.vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, " is ", id, ", the vocabulary has ids 0 to ",
                                                 model.config.vocab_size - 1));
}

}  // namespace tutti::coordinator
