#include "coordinator/service/draft_model.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/service/limits.h"
#include "model/checkpoint.h"
#include "model/config_json.h"
#include "model/fingerprint.h"
#include "model/hub_cache.h"
#include "model/weight_map.h"

namespace tutti::coordinator {
namespace {

std::string Quoted(std::optional<std::string_view> text) {
  return text.has_value() ? absl::StrCat("\"", absl::Utf8SafeCEscape(std::string(*text)), "\"")
                          : "no token";
}

// Without tokenizers only their numbers can be compared.
absl::Status CheckVocabulary(const std::string& folder, const model::ModelConfig& draft,
                             const ServedModel& served) {
  if (served.tokenizer == nullptr) {
    if (draft.vocab_size == served.config.vocab_size) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/config.json: vocab_size is ", draft.vocab_size,
                     ", and that of the model, which has no tokenizer either, is ",
                     served.config.vocab_size, "; a draft model has the model's own vocabulary"));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer,
                         text::Tokenizer::Load(folder));
  return Annotate(CheckSameTokens(*tokenizer, *served.tokenizer), folder);
}

absl::StatusOr<DraftModel> Load(const std::string& folder, const ServedModel& served) {
  DraftModel draft;
  TUTTI_ASSIGN_OR_RETURN(draft.config, model::LoadModelConfig(folder));
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<const model::Checkpoint> checkpoint,
                         model::Checkpoint::Open(folder));
  TUTTI_RETURN_IF_ERROR(model::CheckCheckpoint(draft.config, *checkpoint));
  TUTTI_RETURN_IF_ERROR(model::CheckTiedHead(draft.config, *checkpoint));
  TUTTI_RETURN_IF_ERROR(CheckVocabulary(folder, draft.config, served));
  TUTTI_ASSIGN_OR_RETURN(draft.fingerprint, model::ModelFingerprint(*checkpoint));
  const int64_t context = draft.config.max_position_embeddings;
  draft.introduction = absl::StrCat("draft model ", folder, ": ", draft.config.architecture, ", ",
                                    draft.config.num_layers, " layers");
  if (context < served.max_model_len) {
    absl::StrAppend(&draft.introduction, "; its context ends at ", context,
                    ", and behind that it guesses nothing");
  }
  return draft;
}

}  // namespace

absl::Status CheckSameTokens(const text::Tokenizer& draft, const text::Tokenizer& served) {
  int64_t known = 0;
  int64_t lacking = 0;
  for (TokenId id = 0; id < served.vocab_size(); ++id) {
    const std::optional<std::string_view> theirs = served.TokenText(id);
    if (!theirs.has_value()) continue;
    ++known;
    const std::optional<std::string_view> ours =
        id < draft.vocab_size() ? draft.TokenText(id) : std::nullopt;
    if (!ours.has_value()) {
      ++lacking;
    } else if (*ours != *theirs) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", id, " is ", Quoted(ours), ", and in the model it is ",
                       Quoted(theirs), "; a draft model has the model's own vocabulary"));
    }
  }
  if (static_cast<double>(lacking) <= kDraftTokensLackingShare * static_cast<double>(known)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("of the model's ", known, " tokens ", lacking,
                   " are not there; a draft model has the model's own vocabulary"));
}

absl::StatusOr<DraftModel> LoadDraftModel(const std::string& given, const ServedModel& served) {
  TUTTI_ASSIGN_OR_RETURN(const std::string folder, model::FindModel(given, "", "--draft-model"));
  absl::StatusOr<DraftModel> draft = Load(folder, served);
  if (!draft.ok()) return Annotate(draft.status(), "--draft-model");
  return draft;
}

}  // namespace tutti::coordinator
