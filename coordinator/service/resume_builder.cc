#include "coordinator/service/resume_builder.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "base/id_digest.h"
#include "coordinator/limits.h"
#include "coordinator/service/output_text.h"

namespace tutti::coordinator {
namespace {

absl::Status BadOutput(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", what));
}

// The checks that need no knowledge of the ids' meaning.
absl::Status CheckCounts(const v1::ResumedOutput& has, const std::string& path,
                         int32_t max_tokens) {
  const bool has_ids = has.ids_size() > 0;
  if (has_ids && (has.count() > 0 || has.digest() != 0)) {
    return BadOutput(path,
                     "has ids and a count or digest of them; give the ids, or count and digest");
  }
  const int64_t count = has_ids ? has.ids_size() : int64_t{has.count()};
  if (count > max_tokens) {
    return BadOutput(
        absl::StrCat(path, has_ids ? ".ids" : ".count"),
        absl::StrCat("says ", count, " tokens, max_tokens of the answer is ", max_tokens));
  }
  if (count == 0 && has.digest() != 0 && has.digest() != IdDigest().value()) {
    return BadOutput(absl::StrCat(path, ".digest"), "is given without a count");
  }
  return absl::OkStatus();
}

// The text after the ids, and how the output ended if it did with the last of them.
absl::Status ReadIds(const v1::ResumedOutput& has, const std::string& path,
                     const ServedModel& model, const OutputOptions& options, const Request& request,
                     OutputStart* start, OutputResume* resume) {
  const auto text = std::make_shared<OutputText>(model.tokenizer.get(), options);
  start->ids.reserve(static_cast<size_t>(has.ids_size()));
  for (int i = 0; i < has.ids_size(); ++i) {
    const TokenId id = has.ids(i);
    if (id < 0 || id >= model.config.vocab_size) {
      return BadOutput(
          absl::StrCat(path, ".ids[", i, "]"),
          absl::StrCat("is ", id, ", the vocabulary has ids 0 to ", model.config.vocab_size - 1));
    }
    if (start->ended.has_value()) {
      return BadOutput(absl::StrCat(path, ".ids[", i, "]"), "comes after the end of the output");
    }
    start->ids.push_back(id);
    if (!TUTTI_FAIL_POINT("coordinator.resume_keeps_no_stop_state")) text->Push(id);
    if (text->stopped()) {
      start->ended = FinishCause::kStopString;
    } else if (text->is_stop_token(id)) {
      start->ended = FinishCause::kStopToken;
    }
  }
  if (!start->ended.has_value() && has.ids_size() == request.max_tokens) {
    start->ended = FinishCause::kLength;
  }
  // One fewer, and the client gets its last token again.
  if (!start->ids.empty() && TUTTI_FAIL_POINT("coordinator.resume_off_by_one")) {
    start->ids.pop_back();
  }
  resume->text = text;
  return absl::OkStatus();
}

}  // namespace

absl::Status BuildResume(const v1::Resume& resume, const ResumeClaims& claims,
                         const ServedModel& model, BuiltRequest* built) {
  Request& request = built->request;
  const int64_t room = model.max_model_len - static_cast<int64_t>(request.prompt.size());
  if (claims.max_tokens < 1 || claims.max_tokens > room) {
    return absl::FailedPreconditionError(
        absl::StrCat("resume: the answer was begun with max_tokens of ", claims.max_tokens,
                     ", the context of ", model.max_model_len, " here leaves ", room));
  }
  if (resume.outputs_size() != built->n) {
    return BadOutput("resume.outputs",
                     absl::StrCat("has ", resume.outputs_size(), " entries, the request has ",
                                  built->n, " outputs"));
  }
  request.resumes = true;
  request.max_tokens = claims.max_tokens;
  request.max_tokens_is_default = false;
  request.numerics = claims.numerics;
  request.allow_inexact = resume.allow_inexact();
  request.sampling.set_seed(claims.seed);
  built->seed_given = true;
  built->starts.resize(static_cast<size_t>(built->n));
  built->output.resume.resize(static_cast<size_t>(built->n));
  for (int i = 0; i < built->n; ++i) {
    const v1::ResumedOutput& has = resume.outputs(i);
    const std::string path = absl::StrCat("resume.outputs[", i, "]");
    TUTTI_RETURN_IF_ERROR(CheckCounts(has, path, claims.max_tokens));
    OutputStart& start = built->starts[static_cast<size_t>(i)];
    OutputResume& output = built->output.resume[static_cast<size_t>(i)];
    output.finished = start.finished = has.finished();
    output.tokens = has.ids_size() > 0 ? has.ids_size() : static_cast<int32_t>(has.count());
    output.digest = has.digest();
    if (has.finished()) continue;
    if (has.count() > 0) continue;
    TUTTI_RETURN_IF_ERROR(ReadIds(has, path, model, built->output, request, &start, &output));
  }
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
