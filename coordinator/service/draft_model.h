// The draft model as the coordinator knows it: whether what it says can be guesses of the served
// model's tokens. No weights: workers hold them (worker/drafter.h).
//
// Thread: any.
#pragma once

#include <string>

#include "base/status.h"
#include "coordinator/service/served_model.h"
#include "model/model_config.h"

namespace tutti::coordinator {

struct DraftModel {
  model::ModelConfig config;
  std::string fingerprint;   // of the checkpoint
  std::string introduction;  // for the log
};

// `given`: a folder, or a name on the hub. Errors begin with "--draft-model" and name the file:
// those of ServedModel::Load, and INVALID_ARGUMENT for another vocabulary, naming a token that
// differs.
absl::StatusOr<DraftModel> LoadDraftModel(const std::string& given, const ServedModel& served);

// Whether an id stands for the same text in both vocabularies. A token that one of them lacks is no
// difference: models of one family differ in a few that were added later, and in rows that stand
// for nothing. INVALID_ARGUMENT: a token differs, or kDraftTokensLackingShare of the served model's
// are not there.
absl::Status CheckSameTokens(const text::Tokenizer& draft, const text::Tokenizer& served);

}  // namespace tutti::coordinator
