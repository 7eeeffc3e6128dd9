#include "client/sampling_flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/format.h"

namespace tutti::client {

void AddSamplingFlags(CLI::App* app, SamplingFlags* flags) {
  constexpr const char* kGroup = "Sampling";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app->add_option(name, value, help)->group(kGroup);
  };
  add("-n,--max-tokens", flags->max_tokens, "Tokens to generate at most")
      ->envname("TUTTI_MAX_TOKENS");
  add("-t,--temperature", flags->temperature, "0: always the most likely token")
      ->envname("TUTTI_TEMPERATURE");
  add("--top-k", flags->top_k, "Choose among the k most likely tokens; 0: all");
  add("--top-p", flags->top_p, "Choose among the most likely tokens that hold this share");
  add("--min-p", flags->min_p, "Leave out tokens below this share of the likeliest one");
  add("--repetition-penalty", flags->repetition_penalty, "Above 1: prompt and output tokens less");
  add("--presence-penalty", flags->presence_penalty, "Above 0: tokens of the output less");
  add("--frequency-penalty", flags->frequency_penalty,
      "Above 0: tokens of the output less, each time more");
  add("--logit-bias", flags->logit_bias, "ID=BIAS: add to a token's logit; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  add("--seed", flags->seed, "Same seed, same text; unset: the service chooses and tells")
      ->envname("TUTTI_SEED");
  add("--stop", flags->stop, "Text that ends the output; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  add("--stop-token-ids", flags->stop_token_ids, "Token ids that end the output: 1,2,3")
      ->delimiter(',');
  app->add_flag("--ignore-eos", flags->ignore_eos, "Go on after the end-of-sequence token")
      ->group(kGroup);
  app->add_flag("--include-stop-str-in-output", flags->include_stop, "Print the stop text too")
      ->group(kGroup);
  app->add_flag("--keep-special-tokens", flags->keep_special_tokens,
                "Print special tokens, such as <|im_end|>")
      ->group(kGroup);
  app->add_flag("--logprobs", flags->logprobs, "Log-probability of every token (with --json)")
      ->group(kGroup);
  add("--top-logprobs", flags->top_logprobs, "And those of the n most likely (with --json)");
}

absl::Status FillSampling(const SamplingFlags& flags, v1::SamplingParams* params) {
  if (flags.max_tokens) params->set_max_tokens(*flags.max_tokens);
  if (flags.temperature) params->set_temperature(*flags.temperature);
  if (flags.top_k) params->set_top_k(*flags.top_k);
  if (flags.top_p) params->set_top_p(*flags.top_p);
  if (flags.min_p) params->set_min_p(*flags.min_p);
  if (flags.repetition_penalty) params->set_repetition_penalty(*flags.repetition_penalty);
  if (flags.presence_penalty) params->set_presence_penalty(*flags.presence_penalty);
  if (flags.frequency_penalty) params->set_frequency_penalty(*flags.frequency_penalty);
  for (const std::string& entry : flags.logit_bias) {
    const size_t equals = entry.find('=');
    int32_t id = 0;
    float bias = 0;
    if (equals == std::string::npos || !absl::SimpleAtoi(entry.substr(0, equals), &id) ||
        !absl::SimpleAtof(entry.substr(equals + 1), &bias)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--logit-bias: \"", OneLine(entry), "\" is not ID=BIAS, such as 42=-5"));
    }
    if (!params->mutable_logit_bias()->insert({id, bias}).second) {
      return absl::InvalidArgumentError(absl::StrCat("--logit-bias: token ", id, " twice"));
    }
  }
  if (flags.seed) params->set_seed(*flags.seed);
  for (const std::string& stop : flags.stop) params->add_stop(stop);
  for (int32_t id : flags.stop_token_ids) params->add_stop_token_ids(id);
  params->set_ignore_eos(flags.ignore_eos);
  params->set_include_stop_str_in_output(flags.include_stop);
  if (flags.keep_special_tokens) params->set_skip_special_tokens(false);
  params->set_logprobs(flags.logprobs || flags.top_logprobs.value_or(0) > 0);
  if (flags.top_logprobs) params->set_top_logprobs(*flags.top_logprobs);
  return absl::OkStatus();
}

}  // namespace tutti::client
