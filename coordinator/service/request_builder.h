// The way from a client's message to the core's Request: every default resolved, every limit
// checked, here and nowhere deeper.
//
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "coordinator/events.h"
#include "coordinator/request.h"
#include "coordinator/service/grammar_builder.h"
#include "coordinator/service/output_options.h"
#include "coordinator/service/served_model.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::coordinator {

// The place where an output goes on that a client has a part of.
struct OutputStart {
  std::vector<TokenId> ids;          // to continue from
  bool finished = false;             // the client has its end too
  std::optional<FinishCause> ended;  // the ids are all of it: nothing is left to compute
};

struct BuiltRequest {
  Request request;  // id, deadline, owner and an unset seed are the caller's to fill
  Hash128 tenant;   // the caller's to fill; zero: none is named
  OutputOptions output;
  int32_t n = 1;  // outputs wanted: requests like this one, with the seeds of SeedOfOutput
  bool seed_given = false;
  std::string grammar_digest;       // of the text's grammar; empty: there is none
  std::vector<OutputStart> starts;  // by output, of an answer that goes on (resume_builder.h)
};

// All of the message but `resume`. INVALID_ARGUMENT names the field by its path and the limit;
// NOT_FOUND an unknown model. ABORTED: its grammar takes more work than was given.
absl::StatusOr<BuiltRequest> BuildRequest(const v1::GenerateRequest& message,
                                          const ServedModel& model,
                                          const GrammarMeans& grammar_means = {});

// NOT_FOUND when `name` is neither empty nor the served model's.
absl::Status CheckModelName(const std::string& name, const ServedModel& model);

}  // namespace tutti::coordinator
