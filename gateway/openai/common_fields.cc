// The fields that /v1/chat/completions, /v1/completions and /v1/responses share.
#include <limits>
#include <utility>

#include "door/limits.h"
#include "gateway/grammar_fields.h"
#include "gateway/openai/generation_request.h"
#include "gateway/sampling_fields.h"

namespace tutti::gateway {
namespace {

void ReadStreaming(FieldReader* fields, GenerationRequest* request) {
  request->stream = fields->Bool("stream").value_or(false);
  const Json* options = fields->Find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields->Fail("stream_options", "is not an object");
  if (!request->stream) return fields->Fail("stream_options", "is for streams: set stream to true");
  FieldReader inner(*options, fields->PathOf("stream_options."));
  request->include_usage = inner.Bool("include_usage").value_or(false);
  // As vLLM does: without the usage at the end there is none in between.
  request->continuous_usage =
      inner.Bool("continuous_usage_stats").value_or(false) && request->include_usage;
  inner.Refuse({.name = "include_obfuscation", .harmless = "*"});
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

// How next tokens are guessed, which no answer depends on.
void ReadSpeculation(FieldReader* fields, v1::GenerateRequest* call) {
  const Json* given = fields->Find("speculation");
  if (given == nullptr) return;
  if (!given->is_object()) return fields->Fail("speculation", "is not an object");
  FieldReader inner(*given, fields->PathOf("speculation."));
  v1::Speculation* speculation = call->mutable_speculation();
  const auto mode = inner.Text("mode");
  if (mode == "off") {
    speculation->set_mode(v1::Speculation::MODE_OFF);
  } else if (mode == "lookup") {
    speculation->set_mode(v1::Speculation::MODE_LOOKUP);
  } else if (mode == "draft") {
    speculation->set_mode(v1::Speculation::MODE_DRAFT);
  } else if (mode.has_value()) {
    inner.Fail("mode", R"(must be "off", "lookup" or "draft")");
  }
  if (const auto most = inner.Integer("max_tokens", 0, std::numeric_limits<uint32_t>::max())) {
    speculation->set_max_tokens(static_cast<uint32_t>(*most));
  }
  inner.RefuseOthers();
  if (inner.error().has_value()) fields->Fail(*inner.error());
}

}  // namespace

void ReadCommonFields(FieldReader* fields, GenerationRequest* request, v1::GenerateRequest* call) {
  ReadSamplingFields(fields, call);
  // vLLM's clients write none as -1.
  if (const Json* seed = fields->Find("seed"); seed != nullptr && *seed == -1) {
    call->mutable_sampling()->clear_seed();
  }
  ReadStreaming(fields, request);
  ReadSpeculation(fields, call);
  request->token_ids = fields->Bool("return_token_ids").value_or(false);
  request->tokens_as_ids = fields->Bool("return_tokens_as_token_ids").value_or(false);
}

void ReadGrammar(FieldReader* fields, std::string_view text, GenerationRequest* request,
                 v1::GenerateRequest* call) {
  request->names.grammar = ReadGrammarFields(fields, text, call);
}

void ReadPromptLogprobs(FieldReader* fields, GenerationRequest* request) {
  const auto top = fields->Integer("prompt_logprobs", 0, door::kTopLogprobsMax);
  if (!top.has_value()) return;
  if (request->stream) {
    return fields->Fail("prompt_logprobs", "is for whole answers: leave out stream");
  }
  request->prompt_logprobs = true;
  request->prompt_top = static_cast<uint32_t>(*top);
}

std::optional<ApiError> SetParse(const ParseRules& rules, const AnswerForm& of_template,
                                 GenerationRequest* request) {
  if (!request->names.chat || request->parse != nullptr) return std::nullopt;
  auto chosen = ChooseParse(rules, of_template, &request->wishes, &request->names, &request->calls);
  if (auto* error = std::get_if<ApiError>(&chosen)) return std::move(*error);
  request->parse = std::get<std::shared_ptr<const ParseOptions>>(std::move(chosen));
  request->old_reasoning_name = request->parse != nullptr && rules.old_reasoning_name;
  return std::nullopt;
}

}  // namespace tutti::gateway
