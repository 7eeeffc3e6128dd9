#include "coordinator/service/request_builder.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"
#include "coordinator/service/grammar_builder.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/mask_builder.h"
#include "door/limits.h"

namespace tutti::coordinator {
namespace {

absl::Status Bad(std::string_view path, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(path.data(), path.size()), " ",
                                                 absl::string_view(what.data(), what.size())));
}

// A float field, its default, and the closed range it must lie in. NaN lies in no range.
absl::StatusOr<float> InRange(bool given, float value, double otherwise, float low, float high,
                              std::string_view path) {
  if (!given) return static_cast<float>(otherwise);
  if (!(value >= low && value <= high)) {
    return Bad(path, absl::StrCat("is ", value, ", it must lie in [", low, ", ", high, "]"));
  }
  return value;
}

absl::Status CheckLabel(const std::string& label) {
  if (static_cast<int64_t>(label.size()) > door::kRequestIdBytesMax) {
    return Bad("request_id", absl::StrCat("is longer than ", door::kRequestIdBytesMax, " bytes"));
  }
  for (const char c : label) {
    if (c < 0x20 || c > 0x7e)
      return Bad("request_id", "holds a character that is not printable ASCII");
  }
  return absl::OkStatus();
}

absl::Status CheckSalt(const std::string& salt) {
  if (static_cast<int64_t>(salt.size()) <= kCacheSaltBytesMax) return absl::OkStatus();
  return Bad("cache_salt", absl::StrCat("is longer than ", kCacheSaltBytesMax, " bytes"));
}

absl::StatusOr<int32_t> BuildPriority(const v1::GenerateRequest& message) {
  const int32_t priority = message.priority();
  if (priority < kPriorityMin || priority > kPriorityMax) {
    return Bad("priority", absl::StrCat("is ", priority, ", it must lie in [", kPriorityMin, ", ",
                                        kPriorityMax, "]"));
  }
  return priority;
}

// Nothing is set where it is as the operator chose.
absl::Status BuildSpeculation(const v1::Speculation& speculation, const ServedModel& model,
                              Request* request) {
  if (speculation.max_tokens() > static_cast<uint32_t>(kGuessesMax)) {
    return Bad("speculation.max_tokens",
               absl::StrCat("is ", speculation.max_tokens(), ", the limit is ", kGuessesMax));
  }
  const auto most = static_cast<int32_t>(speculation.max_tokens());
  switch (speculation.mode()) {
    case v1::Speculation::MODE_UNSPECIFIED:
      if (most == 0) return absl::OkStatus();
      return Bad("speculation.max_tokens", "is set, which needs speculation.mode");
    case v1::Speculation::MODE_OFF:
      request->guesses_max = request->drafts_max = 0;
      return absl::OkStatus();
    case v1::Speculation::MODE_LOOKUP:
      request->guesses_max = most == 0 ? kGuessesMax : most;
      request->drafts_max = 0;
      return absl::OkStatus();
    case v1::Speculation::MODE_DRAFT:
      if (!model.has_draft) {
        return Bad("speculation.mode",
                   "is MODE_DRAFT, but this service has no draft model (--draft-model)");
      }
      request->guesses_max = request->drafts_max = most == 0 ? kGuessesMax : most;
      return absl::OkStatus();
    default:
      return Bad("speculation.mode", absl::StrCat("is ", static_cast<int>(speculation.mode()),
                                                  ", which is none that this service has"));
  }
}

absl::StatusOr<int32_t> BuildOutputCount(const v1::GenerateRequest& message) {
  if (message.n() > door::kOutputsMax) {
    return Bad("n", absl::StrCat("is ", message.n(), ", the limit is ", door::kOutputsMax));
  }
  return static_cast<int32_t>(std::max(message.n(), 1u));
}

absl::Status TooLong(std::string_view tokens, const ServedModel& model) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the prompt has ", absl::string_view(tokens.data(), tokens.size()),
      " tokens, the context of ", model.max_model_len, " leaves no room for output; shorten it"));
}

// A prompt that was not encoded to its end because it was too long.
absl::StatusOr<std::vector<TokenId>> ExplainLength(absl::StatusOr<std::vector<TokenId>> ids,
                                                   const ServedModel& model) {
  if (!absl::IsOutOfRange(ids.status())) return ids;
  return TooLong(absl::StrCat("more than ", model.max_model_len), model);
}

// The last `keep` ids; 0: all.
absl::StatusOr<std::vector<TokenId>> KeepLast(int64_t keep,
                                              absl::StatusOr<std::vector<TokenId>> ids) {
  if (!ids.ok() || keep == 0 || static_cast<int64_t>(ids->size()) <= keep) return ids;
  return std::vector<TokenId>(ids->end() - keep, ids->end());
}

absl::StatusOr<std::vector<TokenId>> BuildPrompt(const v1::GenerateRequest& message,
                                                 const ServedModel& model) {
  if (TUTTI_FAIL_POINT("coordinator.no_memory_for_prompt")) throw std::bad_alloc();
  // A prompt that is too long is told its length, unless it takes long to know. Of one whose last
  // tokens are wanted, all are needed.
  const int64_t keep = message.truncate_prompt_tokens();
  const bool counts = message.ByteSizeLong() <= kCountedPromptBytesMax;
  const int64_t ids_max = keep > 0 || counts ? text::Tokenizer::kAllIds : model.max_model_len;
  switch (message.prompt_case()) {
    case v1::GenerateRequest::kText:
      return KeepLast(keep, ExplainLength(model.EncodeText(message.text(), message.text_reading(),
                                                           "text", ids_max),
                                          model));
    case v1::GenerateRequest::kChat:
      return KeepLast(keep,
                      ExplainLength(model.EncodeChat(message.chat(), "chat", ids_max), model));
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = message.token_ids().ids();
      if (ids.size() >= model.max_model_len && keep == 0) {
        return TooLong(absl::StrCat(ids.size()), model);
      }
      for (int i = 0; i < ids.size(); ++i) {
        TUTTI_RETURN_IF_ERROR(CheckTokenId(ids[i], model, absl::StrCat("token_ids.ids[", i, "]")));
      }
      return KeepLast(keep, std::vector<TokenId>(ids.begin(), ids.end()));
    }
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("one of text, token_ids and chat must be set");
}

absl::Status BuildPenalties(const v1::SamplingParams& params,
                            const model::GenerationConfig& defaults, v1::SequenceSampling* out) {
  TUTTI_ASSIGN_OR_RETURN(
      const float repetition,
      InRange(params.has_repetition_penalty(), params.repetition_penalty(),
              defaults.repetition_penalty.value_or(1), door::kRepetitionPenaltyMin,
              door::kRepetitionPenaltyMax, "sampling.repetition_penalty"));
  out->set_repetition_penalty(repetition);
  TUTTI_ASSIGN_OR_RETURN(
      const float presence,
      InRange(params.has_presence_penalty(), params.presence_penalty(), 0,
              -door::kAdditivePenaltyMax, door::kAdditivePenaltyMax, "sampling.presence_penalty"));
  TUTTI_ASSIGN_OR_RETURN(
      const float frequency,
      InRange(params.has_frequency_penalty(), params.frequency_penalty(), 0,
              -door::kAdditivePenaltyMax, door::kAdditivePenaltyMax, "sampling.frequency_penalty"));
  out->set_presence_penalty(presence);
  out->set_frequency_penalty(frequency);
  return absl::OkStatus();
}

absl::Status BuildLogitBias(const v1::SamplingParams& params, const ServedModel& model,
                            v1::SequenceSampling* out) {
  if (static_cast<int64_t>(params.logit_bias_size()) > door::kLogitBiasMax) {
    return Bad("sampling.logit_bias", absl::StrCat("has ", params.logit_bias_size(),
                                                   " entries, the limit is ", door::kLogitBiasMax));
  }
  // A protobuf map has no order; the worker's arithmetic gets one.
  std::vector<std::pair<int32_t, float>> entries(params.logit_bias().begin(),
                                                 params.logit_bias().end());
  std::sort(entries.begin(), entries.end());
  for (const auto& [id, bias] : entries) {
    const std::string path = absl::StrCat("sampling.logit_bias[", id, "]");
    TUTTI_RETURN_IF_ERROR(CheckTokenId(id, model, path + " (the key)"));
    TUTTI_RETURN_IF_ERROR(
        InRange(true, bias, 0, -door::kLogitBiasValueMax, door::kLogitBiasValueMax, path).status());
    out->add_bias_ids(id);
    out->add_bias_values(bias);
  }
  return absl::OkStatus();
}

absl::Status BuildSampling(const v1::SamplingParams& params, const ServedModel& model,
                           v1::SequenceSampling* out) {
  const model::GenerationConfig& defaults = model.generation;
  const bool greedy_by_default = defaults.do_sample.has_value() && !*defaults.do_sample;
  TUTTI_ASSIGN_OR_RETURN(const float temperature,
                         InRange(params.has_temperature(), params.temperature(),
                                 greedy_by_default ? 0 : defaults.temperature.value_or(1), 0,
                                 door::kTemperatureMax, "sampling.temperature"));
  out->set_temperature(temperature);
  int64_t top_k = params.has_top_k() ? params.top_k() : defaults.top_k.value_or(0);
  if (top_k < -1) return Bad("sampling.top_k", absl::StrCat("is ", top_k, ", it must be >= -1"));
  out->set_top_k(static_cast<int32_t>(std::max<int64_t>(top_k, 0)));
  if (params.has_top_p() && !(params.top_p() > 0 && params.top_p() <= 1)) {
    return Bad("sampling.top_p", absl::StrCat("is ", params.top_p(), ", it must lie in (0, 1]"));
  }
  out->set_top_p(params.has_top_p() ? params.top_p()
                                    : static_cast<float>(defaults.top_p.value_or(1)));
  TUTTI_ASSIGN_OR_RETURN(const float min_p,
                         InRange(params.has_min_p(), params.min_p(), defaults.min_p.value_or(0), 0,
                                 1, "sampling.min_p"));
  out->set_min_p(min_p);
  TUTTI_RETURN_IF_ERROR(BuildPenalties(params, defaults, out));
  TUTTI_RETURN_IF_ERROR(BuildLogitBias(params, model, out));
  if (params.top_logprobs() > door::kTopLogprobsMax) {
    return Bad("sampling.top_logprobs", absl::StrCat("is ", params.top_logprobs(),
                                                     ", the limit is ", door::kTopLogprobsMax));
  }
  if (params.top_logprobs() > 0 && !params.logprobs()) {
    return Bad("sampling.top_logprobs",
               absl::StrCat("is ", params.top_logprobs(), ", which needs sampling.logprobs"));
  }
  out->set_logprobs(params.logprobs());
  out->set_top_logprobs(params.top_logprobs());
  out->set_seed(params.seed());
  return absl::OkStatus();
}

// An answer by a grammar ends where its text does, whatever ignore_eos says.
absl::Status BuildStops(const v1::SamplingParams& params, const ServedModel& model,
                        bool has_grammar, BuiltRequest* out) {
  if (params.stop_size() > 0 && model.tokenizer == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling.stop: model '", model.name,
                     "' has no tokenizer files, so its answers have no text; use stop_token_ids"));
  }
  if (params.stop_size() > 0) {
    out->output.stop.assign(params.stop().begin(), params.stop().end());
    absl::StatusOr<text::StopMatcher> matcher =
        text::StopMatcher::Create(out->output.stop, params.include_stop_str_in_output());
    if (!matcher.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("sampling.", matcher.status().message()));
    }
    out->output.stop_matcher = *std::move(matcher);
  }
  if (params.stop_token_ids_size() > door::kStopTokenIdsMax) {
    return Bad("sampling.stop_token_ids",
               absl::StrCat("has ", params.stop_token_ids_size(), " ids, the limit is ",
                            door::kStopTokenIdsMax));
  }
  std::vector<TokenId>& ids = out->request.stop_token_ids;
  for (int i = 0; i < params.stop_token_ids_size(); ++i) {
    TUTTI_RETURN_IF_ERROR(CheckTokenId(params.stop_token_ids(i), model,
                                       absl::StrCat("sampling.stop_token_ids[", i, "]")));
    ids.push_back(params.stop_token_ids(i));
  }
  if (!params.ignore_eos() || has_grammar) {
    ids.insert(ids.end(), model.generation.eos_token_ids.begin(),
               model.generation.eos_token_ids.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  out->output.stop_token_ids = ids;
  out->output.include_stop = params.include_stop_str_in_output();
  out->output.min_tokens = params.min_tokens();
  return BuildMask(params, ids, model, &out->request.sampling);
}

absl::Status PutGrammar(const v1::GenerateRequest& message, const ServedModel& model,
                        const GrammarMeans& means, BuiltRequest* out) {
  TUTTI_ASSIGN_OR_RETURN(BuiltGrammar built,
                         BuildGrammar(message, out->request.prompt, model, means));
  v1::SequenceSampling& sampling = out->request.sampling;
  out->grammar_digest = std::move(built.digest);
  *sampling.mutable_grammar() = std::move(built.source);
  sampling.mutable_grammar()->set_ends_late(message.sampling().ignore_eos());
  const std::vector<TokenId>& ends = out->request.stop_token_ids;
  sampling.mutable_end_ids()->Assign(ends.begin(), ends.end());
  return absl::OkStatus();
}

absl::Status CheckMinTokens(const v1::SamplingParams& params, const Request& request) {
  if (params.min_tokens() <= static_cast<uint32_t>(request.max_tokens)) return absl::OkStatus();
  return Bad(
      "sampling.min_tokens",
      absl::StrCat("is ", params.min_tokens(), ", more than the ", request.max_tokens,
                   request.max_tokens_is_default ? " that the context leaves" : " of max_tokens"));
}

// Unset, max_tokens is the rest of the context; the engine may lower it to the room in
// the KV cache.
absl::Status BuildLength(const v1::SamplingParams& params, const ServedModel& model,
                         Request* request) {
  const int64_t prompt = static_cast<int64_t>(request->prompt.size());
  if (prompt == 0) return absl::InvalidArgumentError("the prompt is empty: it has no tokens");
  if (prompt >= model.max_model_len) {
    return TooLong(absl::StrCat(prompt), model);
  }
  const int64_t room = model.max_model_len - prompt;
  request->max_tokens_is_default = !params.has_max_tokens();
  if (!params.has_max_tokens()) {
    request->max_tokens = static_cast<int32_t>(room);
    return CheckMinTokens(params, *request);
  }
  if (params.max_tokens() == 0) return Bad("sampling.max_tokens", "is 0, it must be at least 1");
  if (params.max_tokens() > room) {
    return Bad("sampling.max_tokens",
               absl::StrCat("is ", params.max_tokens(), ", the context of ", model.max_model_len,
                            " leaves ", room, " after a prompt of ", prompt, " tokens"));
  }
  request->max_tokens = static_cast<int32_t>(params.max_tokens());
  return CheckMinTokens(params, *request);
}

}  // namespace

absl::Status CheckModelName(const std::string& name, const ServedModel& model) {
  if (name.empty() || name == model.name) return absl::OkStatus();
  const auto& others = model.other_names;
  if (std::find(others.begin(), others.end(), name) != others.end()) return absl::OkStatus();
  std::string all = absl::StrCat("'", model.name, "'");
  for (const std::string& other : others) absl::StrAppend(&all, ", '", other, "'");
  return absl::NotFoundError(
      absl::StrCat("model: no model of that name is served here, only ", all));
}

absl::StatusOr<BuiltRequest> BuildRequest(const v1::GenerateRequest& message,
                                          const ServedModel& model,
                                          const GrammarMeans& grammar_means) {
  TUTTI_RETURN_IF_ERROR(CheckLabel(message.request_id()));
  TUTTI_RETURN_IF_ERROR(CheckModelName(message.model(), model));
  TUTTI_RETURN_IF_ERROR(CheckSalt(message.cache_salt()));
  if (message.has_grammar()) TUTTI_RETURN_IF_ERROR(CheckGrammar(message.grammar(), model));
  const v1::SamplingParams& params = message.sampling();
  BuiltRequest built;
  // The cheap checks first: a long prompt is not tokenized for a request that will be refused
  // anyway.
  TUTTI_ASSIGN_OR_RETURN(built.n, BuildOutputCount(message));
  TUTTI_ASSIGN_OR_RETURN(built.request.priority, BuildPriority(message));
  TUTTI_RETURN_IF_ERROR(BuildSpeculation(message.speculation(), model, &built.request));
  TUTTI_RETURN_IF_ERROR(BuildSampling(params, model, &built.request.sampling));
  TUTTI_RETURN_IF_ERROR(BuildStops(params, model, message.has_grammar(), &built));
  TUTTI_ASSIGN_OR_RETURN(built.request.prompt, BuildPrompt(message, model));
  TUTTI_RETURN_IF_ERROR(BuildLength(params, model, &built.request));
  if (message.has_grammar()) {
    TUTTI_RETURN_IF_ERROR(PutGrammar(message, model, grammar_means, &built));
  }
  built.seed_given = params.has_seed();
  built.output.skip_special_tokens =
      !params.has_skip_special_tokens() || params.skip_special_tokens();
  built.output.logprobs = built.request.sampling.logprobs();
  return built;
}

}  // namespace tutti::coordinator
