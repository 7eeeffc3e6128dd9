#include "gateway/vllm/engine_request.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "door/limits.h"
#include "gateway/grammar_fields.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

namespace engine = vllm::grpc::engine;

constexpr uint32_t kIdMax = std::numeric_limits<int32_t>::max();

absl::Status Unserved(absl::string_view field) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is not served here yet; leave it out"));
}

template <typename Ids>
absl::Status CopyIds(const google::protobuf::RepeatedField<uint32_t>& from, absl::string_view path,
                     Ids* to) {
  to->Reserve(from.size());
  for (int i = 0; i < from.size(); ++i) {
    if (from[i] > kIdMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, "[", i, "] is ", from[i], ", which is no token id"));
    }
    to->AddAlreadyReserved(static_cast<int32_t>(from[i]));
  }
  return absl::OkStatus();
}

absl::Status RefuseUnserved(const engine::GenerateRequest& asked) {
  TUTTI_RETURN_IF_ERROR(RefuseUnknownFields(asked, "the request"));
  TUTTI_RETURN_IF_ERROR(RefuseUnknownFields(asked.sampling_params(), "sampling_params"));
  TUTTI_RETURN_IF_ERROR(
      RefuseUnknownFields(asked.sampling_params().choice(), "sampling_params.choice"));
  if (asked.has_kv_transfer_params()) return Unserved("kv_transfer_params");
  if (!asked.kv_transfer_params_json().empty()) return Unserved("kv_transfer_params_json");
  if (asked.has_mm_inputs()) return Unserved("mm_inputs");
  if (asked.extra_mm_inputs_size() > 0) return Unserved("extra_mm_inputs");
  if (asked.has_media_refs()) return Unserved("media_refs");
  if (asked.data_parallel_rank() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data_parallel_rank is ", asked.data_parallel_rank(), ", there is rank 0 only"));
  }
  return absl::OkStatus();
}

// The limits on what takes memory of ours before the service is asked.
absl::Status CheckSizes(const engine::GenerateRequest& asked) {
  if (static_cast<int64_t>(asked.request_id().size()) > door::kRequestIdBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id is longer than ", door::kRequestIdBytesMax, " bytes"));
  }
  if (const uint32_t n = asked.sampling_params().n(); n > door::kOutputsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling_params.n is ", n, ", the limit is ", door::kOutputsMax));
  }
  return absl::OkStatus();
}

absl::Status RefuseUnserved(const engine::SamplingParams& params) {
  if (params.has_structural_tag()) return Unserved("sampling_params.structural_tag");
  if (params.has_prompt_logprobs()) return Unserved("sampling_params.prompt_logprobs");
  if (params.has_logprobs() && params.logprobs() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling_params.logprobs is ", params.logprobs(), ", it must be at least 0"));
  }
  if (params.has_truncate_prompt_tokens() && params.truncate_prompt_tokens() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("sampling_params.truncate_prompt_tokens is ",
                                                   params.truncate_prompt_tokens(),
                                                   ", it must be at least 1"));
  }
  if (params.top_k() > kIdMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling_params.top_k is ", params.top_k(), ", it must be at most ", kIdMax));
  }
  return absl::OkStatus();
}

void ReadConstraint(const engine::SamplingParams& params, v1::GenerateRequest* to) {
  switch (params.constraint_case()) {
    case engine::SamplingParams::kJsonSchema:
      return to->mutable_grammar()->set_json_schema(ClosedSchemaText(params.json_schema()));
    case engine::SamplingParams::kRegex:
      return to->mutable_grammar()->set_regex(params.regex());
    case engine::SamplingParams::kGrammar:
      return to->mutable_grammar()->set_ebnf(params.grammar());
    case engine::SamplingParams::kChoice:
      *to->mutable_grammar()->mutable_choice()->mutable_texts() = params.choice().choices();
      return;
    case engine::SamplingParams::kJsonObject:
      if (params.json_object()) to->mutable_grammar()->mutable_json_object();
      return;
    default:
      return;
  }
}

absl::Status ReadSampling(const engine::SamplingParams& params, v1::SamplingParams* to) {
  TUTTI_RETURN_IF_ERROR(RefuseUnserved(params));
  to->set_temperature(params.has_temperature() ? params.temperature() : 1);
  to->set_top_p(params.top_p() != 0 ? params.top_p() : 1);
  to->set_top_k(static_cast<int32_t>(params.top_k()));
  to->set_min_p(params.min_p());
  to->set_frequency_penalty(params.frequency_penalty());
  to->set_presence_penalty(params.presence_penalty());
  to->set_repetition_penalty(params.repetition_penalty() != 0 ? params.repetition_penalty() : 1);
  if (params.has_max_tokens()) to->set_max_tokens(params.max_tokens());
  to->set_min_tokens(params.min_tokens());
  *to->mutable_stop() = params.stop();
  TUTTI_RETURN_IF_ERROR(CopyIds(params.stop_token_ids(), "sampling_params.stop_token_ids",
                                to->mutable_stop_token_ids()));
  // A setting of the text that stop strings are looked for in; none is sent.
  to->set_skip_special_tokens(params.skip_special_tokens());
  to->set_ignore_eos(params.ignore_eos());
  to->set_include_stop_str_in_output(params.include_stop_str_in_output());
  if (params.has_logprobs()) {
    to->set_logprobs(true);
    to->set_top_logprobs(static_cast<uint32_t>(params.logprobs()));
  }
  if (params.has_seed()) to->set_seed(static_cast<uint64_t>(int64_t{params.seed()}));
  if (params.logit_bias_size() > static_cast<int>(kBiasesMax)) {
    return absl::InvalidArgumentError(absl::StrCat("sampling_params.logit_bias has ",
                                                   params.logit_bias_size(), " biases: too many"));
  }
  *to->mutable_logit_bias() = params.logit_bias();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::GenerateRequest> ReadEngineRequest(const engine::GenerateRequest& asked) {
  TUTTI_RETURN_IF_ERROR(RefuseUnserved(asked));
  TUTTI_RETURN_IF_ERROR(CheckSizes(asked));
  v1::GenerateRequest request;
  request.set_request_id(asked.request_id());
  switch (asked.input_case()) {
    case engine::GenerateRequest::kTokenized:
      TUTTI_RETURN_IF_ERROR(CopyIds(asked.tokenized().input_ids(), "tokenized.input_ids",
                                    request.mutable_token_ids()->mutable_ids()));
      break;
    case engine::GenerateRequest::kText:
      request.set_text(asked.text());
      break;
    case engine::GenerateRequest::INPUT_NOT_SET:
      return absl::InvalidArgumentError("one of tokenized and text must be set");
  }
  const engine::SamplingParams& params = asked.sampling_params();
  TUTTI_RETURN_IF_ERROR(ReadSampling(params, request.mutable_sampling()));
  ReadConstraint(params, &request);
  request.set_n(params.n());
  if (params.has_truncate_prompt_tokens()) {
    request.set_truncate_prompt_tokens(static_cast<uint32_t>(params.truncate_prompt_tokens()));
  }
  return request;
}

const FieldPaths& EnginePaths() {
  static const auto* const paths = new FieldPaths{
      {"sampling.top_logprobs", "sampling_params.logprobs"},
      {"grammar.json_schema", "sampling_params.json_schema"},
      {"grammar.regex", "sampling_params.regex"},
      {"grammar.ebnf", "sampling_params.grammar"},
      {"grammar.choice.texts", "sampling_params.choice.choices"},
      {"grammar.choice", "sampling_params.choice"},
      {"grammar", "sampling_params"},
      {"sampling", "sampling_params"},
      {"n", "sampling_params.n"},
      {"token_ids.ids", "tokenized.input_ids"},
      {"truncate_prompt_tokens", "sampling_params.truncate_prompt_tokens"},
  };
  return *paths;
}

engine::GetModelInfoResponse DescribeForEngine(const v1::GetModelResponse& model) {
  engine::GetModelInfoResponse info;
  info.set_model_path(model.name());
  info.set_served_model_name(model.name());
  info.set_is_generation(true);
  info.set_max_context_length(model.context_length());
  info.set_max_req_input_len(static_cast<int32_t>(model.context_length()));
  info.set_vocab_size(model.vocab_size());
  info.add_architectures(model.architecture());
  *info.mutable_eos_token_ids() = model.eos_token_ids();
  return info;
}

}  // namespace tutti::gateway
