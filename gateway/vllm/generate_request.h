// vLLM's POST /inference/v1/generate: ids of tokens in, ids out.
//
// Every field is served, or refused by name if it would change the answer.
//
// Pure.  Thread: any.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/json_text.h"
#include "gateway/service_error.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::gateway {

struct IdsRequest {
  std::vector<v1::GenerateRequest> calls;  // one
  FieldNames names;
  std::string request_id;  // empty: one of ours
  bool stream = false;
  bool include_usage = false;
  bool with_text = false;        // beside the ids
  bool with_prompt_ids = false;  // in the answer
  bool logprobs = false;
};

std::variant<IdsRequest, ApiError> ReadIdsRequest(const Json& body);

}  // namespace tutti::gateway
