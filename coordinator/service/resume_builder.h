// The way from what a client has of an answer that broke off to where each of its outputs goes on.
//
// Thread: any.
#pragma once

#include "base/status.h"
#include "coordinator/service/request_builder.h"
#include "coordinator/service/resume_token.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// Fills built->starts and built->output.resume, and takes the seed and max_tokens from the claims.
// INVALID_ARGUMENT names the field by its path: other than one entry for each output, more tokens
// than max_tokens, ids outside the vocabulary or after the output's end, ids and count both.
// FAILED_PRECONDITION: the context has become too short for it.
// REQUIRES: the claims are of this request; the rest of `built` is
absl::Status BuildResume(const v1::Resume& resume, const ResumeClaims& claims,
                         const ServedModel& model, BuiltRequest* built);

}  // namespace tutti::coordinator
