#include "gateway/vllm/generate_request.h"

#include <limits>
#include <utility>

#include "base/plain_name.h"
#include "gateway/field_reader.h"
#include "gateway/limits.h"
#include "gateway/sampling_fields.h"

namespace tutti::gateway {
namespace {

constexpr int64_t kIdsUint32Max = std::numeric_limits<uint32_t>::max();

constexpr UnservedField kUnservedOfIds[] = {
    {"features"},
    {"content_parts"},
    {"kv_transfer_params"},
    {"ec_transfer_params"},
    // Of steps before and behind this one.
    {"token_offsets", "*"},
    {"reasoning_ended", "*"},
    {"reasoning_parser_kwargs", "*"},
};

void ReadParams(FieldReader* fields, v1::GenerateRequest* call, IdsRequest* request) {
  const Json* params = fields->Find("sampling_params");
  if (params == nullptr || !params->is_object()) {
    return fields->Fail("sampling_params", "must be an object");
  }
  FieldReader inner(*params, "sampling_params.");
  ReadSamplingFields(&inner, call);
  v1::SamplingParams* const sampling = call->mutable_sampling();
  if (const auto max = inner.Integer("max_tokens", 0, kIdsUint32Max)) {
    sampling->set_max_tokens(static_cast<uint32_t>(*max));
  }
  if (const auto top = inner.Integer("logprobs", 0, kIdsUint32Max)) {
    request->logprobs = true;
    sampling->set_logprobs(true);
    sampling->set_top_logprobs(static_cast<uint32_t>(*top));
  }
  if (!inner.Bool("detokenize").value_or(true) && request->with_text) {
    inner.Fail("detokenize", "must be true for the output_mode \"text\"");
  }
  inner.Ignore({"output_kind", "skip_reading_prefix_cache"});
  inner.Refuse({.name = "prompt_logprobs"});
  RefuseUnserved(&inner);
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

void ReadStreaming(FieldReader* fields, IdsRequest* request) {
  request->stream = fields->Bool("stream").value_or(false);
  const Json* options = fields->Find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields->Fail("stream_options", "is not an object");
  FieldReader inner(*options, "stream_options.");
  request->include_usage = inner.Bool("include_usage").value_or(false);
  inner.Refuse({.name = "continuous_usage_stats", .harmless = "false"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

}  // namespace

std::variant<IdsRequest, ApiError> ReadIdsRequest(const Json& body) {
  FieldReader fields(body, "");
  IdsRequest request;
  request.names.sampling = "sampling_params.";
  request.names.max_tokens = "sampling_params.max_tokens";
  request.names.stop = "sampling_params.stop";
  request.names.prompt = "token_ids";
  v1::GenerateRequest& call = request.calls.emplace_back();
  if (const auto mode = fields.Text("output_mode")) {
    request.with_text = *mode == "text";
    if (*mode != "text" && *mode != "tokens") {
      fields.Fail("output_mode", "must be \"tokens\" or \"text\"");
    }
  }
  ReadParams(&fields, &call, &request);
  if (const auto model = fields.Text("model")) call.set_model(*model);
  if (const auto salt = fields.Text("cache_salt")) call.set_cache_salt(*salt);
  if (const auto priority = fields.Integer("priority", std::numeric_limits<int32_t>::min(),
                                           std::numeric_limits<int32_t>::max())) {
    call.set_priority(static_cast<int32_t>(*priority));
  }
  const auto ids = fields.Ids("token_ids");
  if (!ids.has_value() || ids->empty()) fields.Fail("token_ids", "must be a list of ids of tokens");
  if (ids.has_value()) call.mutable_token_ids()->mutable_ids()->Assign(ids->begin(), ids->end());
  request.request_id = fields.Text("request_id").value_or("");
  if (!request.request_id.empty() &&
      (request.request_id.size() > kRequestNameBytesMax || !IsPlainName(request.request_id))) {
    fields.Fail("request_id", "must be at most 64 letters, digits and ._-");
  }
  request.with_prompt_ids = fields.Bool("return_token_ids").value_or(false);
  ReadStreaming(&fields, &request);
  for (const UnservedField& field : kUnservedOfIds) fields.Refuse(field);
  fields.RefuseOthers();
  if (fields.error().has_value()) return *fields.error();
  return request;
}

}  // namespace tutti::gateway
