// The fields that /v1/chat/completions and /v1/completions share.
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
  request->continuous_usage = inner.Bool("continuous_usage_stats").value_or(false);
  inner.Refuse({.name = "include_obfuscation", .harmless = "*"});
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
  request->token_ids = fields->Bool("return_token_ids").value_or(false);
  request->tokens_as_ids = fields->Bool("return_tokens_as_token_ids").value_or(false);
}

void ReadGrammar(FieldReader* fields, std::string_view text, GenerationRequest* request,
                 v1::GenerateRequest* call) {
  request->names.grammar = ReadGrammarFields(fields, text, call);
}

}  // namespace tutti::gateway
