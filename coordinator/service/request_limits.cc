#include "coordinator/service/request_limits.h"

#include <limits>

#include "coordinator/limits.h"
#include "coordinator/service/limits.h"
#include "door/limits.h"
#include "model/limits.h"
#include "text/limits.h"

namespace tutti::coordinator {
namespace {

using Kind = RequestFieldLimit::Kind;

// A model's own advice has the bounds of a request.
static_assert(static_cast<float>(model::kAdvisedPenaltyMin) == door::kRepetitionPenaltyMin &&
              static_cast<float>(model::kAdvisedPenaltyMax) == door::kRepetitionPenaltyMax &&
              static_cast<float>(model::kAdvisedTemperatureMax) == door::kTemperatureMax);

constexpr double kIntMax = std::numeric_limits<int32_t>::max();

constexpr RequestFieldLimit kLimits[] = {
    {"GenerateRequest.request_id", Kind::kBytes, 0, door::kRequestIdBytesMax},
    {"GenerateRequest.model", Kind::kNamed},
    {"GenerateRequest.text", Kind::kBytes, 0, door::kPromptBytesMax},
    {"GenerateRequest.token_ids", Kind::kNested},
    {"GenerateRequest.chat", Kind::kNested},
    {"GenerateRequest.sampling", Kind::kNested},
    {"GenerateRequest.n", Kind::kValue, 0, door::kOutputsMax},
    {"GenerateRequest.priority", Kind::kValue, kPriorityMin, kPriorityMax},
    {"GenerateRequest.tenant", Kind::kBytes, 0, door::kTenantBytesMax},
    {"GenerateRequest.resume", Kind::kNested},
    {"GenerateRequest.cache_salt", Kind::kBytes, 0, kCacheSaltBytesMax},
    {"GenerateRequest.truncate_prompt_tokens", Kind::kAny},
    {"GenerateRequest.text_reading", Kind::kNested},
    {"GenerateRequest.grammar", Kind::kNested},
    // Sources have limits of their own language: tried in grammar_builder_test.cc and grammar/.
    {"Grammar.json_schema", Kind::kNamed},
    {"Grammar.json_object", Kind::kNested},
    {"Grammar.regex", Kind::kNamed},
    {"Grammar.choice", Kind::kNested},
    {"Grammar.ebnf", Kind::kNamed},
    {"Grammar.whitespace", Kind::kNamed},
    {"Grammar.preface", Kind::kNested},
    {"Choice.texts", Kind::kNamed},
    {"GrammarPreface.open", Kind::kNamed},
    {"GrammarPreface.close", Kind::kNamed},
    {"GenerateRequest.speculation", Kind::kNested},
    {"Speculation.mode", Kind::kNamed},
    {"Speculation.max_tokens", Kind::kValue, 0, kGuessesMax},
    {"TextReading.split_special_tokens", Kind::kAny},
    {"TextReading.omit_special_tokens", Kind::kAny},
    // The token of a stream that goes on: tried in resume_builder_test.cc and resume_token_test.cc.
    {"Resume.token", Kind::kNamed},
    {"Resume.outputs", Kind::kNested},
    {"Resume.allow_inexact", Kind::kAny},
    {"ResumedOutput.ids", Kind::kTokens},
    {"ResumedOutput.count", Kind::kTokens},
    {"ResumedOutput.digest", Kind::kAny},
    {"ResumedOutput.finished", Kind::kAny},
    {"TokenIds.ids", Kind::kTokens},
    {"ChatMessages.messages", Kind::kCount, 0, door::kChatMessagesMax},
    {"ChatMessages.template_kwargs_json", Kind::kBytes, 0, door::kTemplateKwargsBytesMax},
    {"ChatMessages.omit_generation_prompt", Kind::kAny},
    {"ChatMessages.continue_final_message", Kind::kAny},
    {"ChatMessage.role", Kind::kNamed},
    {"ChatMessage.content", Kind::kBytes, 0, door::kPromptBytesMax},
    {"ChatMessage.tool_calls", Kind::kCount, 0, door::kToolCallsMax},
    {"ChatMessage.tool_call_id", Kind::kBytes, 0, door::kChatNameBytesMax},
    {"ChatMessage.name", Kind::kBytes, 0, door::kChatNameBytesMax},
    {"ChatMessage.reasoning_content", Kind::kBytes, 0, door::kPromptBytesMax},
    {"ChatMessage.metadata", Kind::kBytes, 0, door::kChatNameBytesMax},
    {"ToolCall.id", Kind::kBytes, 0, door::kChatNameBytesMax},
    {"ToolCall.name", Kind::kBytes, 0, door::kChatNameBytesMax},
    {"ToolCall.arguments_json", Kind::kBytes, 0, door::kPromptBytesMax},
    {"SamplingParams.max_tokens", Kind::kTokens},
    {"SamplingParams.temperature", Kind::kValue, 0, door::kTemperatureMax},
    {"SamplingParams.top_k", Kind::kValue, -1, kIntMax},
    {"SamplingParams.top_p", Kind::kValue, 0, 1, /*low_open=*/true},
    {"SamplingParams.min_p", Kind::kValue, 0, 1},
    {"SamplingParams.repetition_penalty", Kind::kValue, door::kRepetitionPenaltyMin,
     door::kRepetitionPenaltyMax},
    {"SamplingParams.presence_penalty", Kind::kValue, -door::kAdditivePenaltyMax,
     door::kAdditivePenaltyMax},
    {"SamplingParams.frequency_penalty", Kind::kValue, -door::kAdditivePenaltyMax,
     door::kAdditivePenaltyMax},
    {"SamplingParams.logit_bias", Kind::kCount, 0, door::kLogitBiasMax},
    {"LogitBiasEntry.key", Kind::kId},
    {"LogitBiasEntry.value", Kind::kValue, -door::kLogitBiasValueMax, door::kLogitBiasValueMax},
    {"SamplingParams.seed", Kind::kAny},
    {"SamplingParams.stop", Kind::kCount, 0, text::kStopStringsMax},
    {"SamplingParams.stop_token_ids", Kind::kId, 0, door::kStopTokenIdsMax},
    {"SamplingParams.ignore_eos", Kind::kAny},
    {"SamplingParams.include_stop_str_in_output", Kind::kAny},
    {"SamplingParams.skip_special_tokens", Kind::kAny},
    {"SamplingParams.logprobs", Kind::kAny},
    {"SamplingParams.top_logprobs", Kind::kValue, 0, door::kTopLogprobsMax},
    {"SamplingParams.min_tokens", Kind::kTokens},
    {"SamplingParams.bad_words", Kind::kCount, 0, kBadWordsMax},
    {"SamplingParams.allowed_token_ids", Kind::kId, 0, kAllowedTokenIdsMax},
    {"TokenizeRequest.model", Kind::kNamed},
    {"TokenizeRequest.text", Kind::kBytes, 0, door::kPromptBytesMax},
    {"TokenizeRequest.chat", Kind::kNested},
    {"TokenizeRequest.text_reading", Kind::kNested},
    // Tried in detokenize_test.cc.
    {"DetokenizeRequest.model", Kind::kNamed},
    {"DetokenizeRequest.ids", Kind::kId, 0, door::kDetokenizeIdsMax},
    {"DetokenizeRequest.skip_special_tokens", Kind::kAny},
    {"LookupPrefixRequest.text", Kind::kBytes, 0, door::kPromptBytesMax},
    {"LookupPrefixRequest.token_ids", Kind::kNested},
    {"LookupPrefixRequest.chat", Kind::kNested},
    {"LookupPrefixRequest.tenant", Kind::kBytes, 0, door::kTenantBytesMax},
    {"LookupPrefixRequest.text_reading", Kind::kNested},
};

}  // namespace

std::span<const RequestFieldLimit> RequestFieldLimits() { return kLimits; }

}  // namespace tutti::coordinator
