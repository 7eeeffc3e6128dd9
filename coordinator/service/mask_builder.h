// The fields of a request that limit what is drawn: min_tokens, bad_words, allowed_token_ids.
//
// Thread: any.
#pragma once

#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "coordinator/service/served_model.h"
#include "proto/peer_messages.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// Into the mask of `sampling`. `end_ids`: the tokens that end the output. INVALID_ARGUMENT names
// the field: too many or too long, not in the vocabulary, or together they could leave no token to
// be drawn. Whether min_tokens fits max_tokens is the caller's to check.
absl::Status BuildMask(const v1::SamplingParams& params, std::span<const TokenId> end_ids,
                       const ServedModel& model, v1::SequenceSampling* sampling);

}  // namespace tutti::coordinator
