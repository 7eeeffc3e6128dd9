#include "client/sampling_flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/format.h"

namespace tutti::client {
namespace {

constexpr absl::string_view kGroup = "Sampling";

void AddChoiceFlags(FlagSet* set, SamplingFlags* flags, absl::string_view seed_help) {
  set->Add(
      {
          {.names = "-n,--max-tokens",
           .variable = &flags->max_tokens,
           .help = "Tokens to generate at most"},
          {.names = "-t,--temperature",
           .variable = &flags->temperature,
           .help = "0: always the most likely token"},
          {.names = "--top-k",
           .variable = &flags->top_k,
           .help = "Choose among the k most likely tokens; 0: all"},
          {.names = "--top-p",
           .variable = &flags->top_p,
           .help = "Choose among the most likely tokens that hold this share"},
          {.names = "--min-p",
           .variable = &flags->min_p,
           .help = "Leave out tokens below this share of the likeliest one"},
          {.names = "--repetition-penalty",
           .variable = &flags->repetition_penalty,
           .help = "Above 1: prompt and output tokens less"},
          {.names = "--presence-penalty",
           .variable = &flags->presence_penalty,
           .help = "Above 0: tokens of the output less"},
          {.names = "--frequency-penalty",
           .variable = &flags->frequency_penalty,
           .help = "Above 0: tokens of the output less, each time more"},
          {.names = "--logit-bias",
           .variable = &flags->logit_bias,
           .help = "ID=BIAS: add to a token's logit; may be repeated",
           .list = FlagList::kRepeated},
          {.names = "--seed", .variable = &flags->seed, .help = seed_help},
      },
      kGroup);
}

void AddOutputFlags(FlagSet* set, SamplingFlags* flags) {
  set->Add(
      {
          {.names = "--stop",
           .variable = &flags->stop,
           .help = "Text that ends the output; may be repeated",
           .list = FlagList::kRepeated},
          {.names = "--stop-token-ids",
           .variable = &flags->stop_token_ids,
           .help = "Token ids that end the output: 1,2,3",
           .list = FlagList::kCommas},
          {.names = "--min-tokens",
           .variable = &flags->min_tokens,
           .help = "No end and no stop text before so many tokens"},
          {.names = "--bad-word",
           .variable = &flags->bad_words,
           .help = "Text that the output must not have; may be repeated",
           .list = FlagList::kRepeated},
          {.names = "--allowed-token",
           .variable = &flags->allowed_token_ids,
           .help = "Generate these token ids only: 1,2,3",
           .list = FlagList::kCommas},
          {.names = "--ignore-eos",
           .variable = &flags->ignore_eos,
           .help = "Go on after the end-of-sequence token"},
          {.names = "--include-stop-str-in-output",
           .variable = &flags->include_stop,
           .help = "Print the stop text too"},
          {.names = "--keep-special-tokens",
           .variable = &flags->keep_special_tokens,
           .help = "Print special tokens, such as <|im_end|>"},
          {.names = "--logprobs",
           .variable = &flags->logprobs,
           .help = "Log-probability of every token (with --json)"},
          {.names = "--top-logprobs",
           .variable = &flags->top_logprobs,
           .help = "And those of the n most likely (with --json)"},
      },
      kGroup);
}

}  // namespace

void AddSamplingFlags(FlagSet* set, SamplingFlags* flags, absl::string_view seed_help) {
  AddChoiceFlags(set, flags, seed_help);
  AddOutputFlags(set, flags);
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
      return absl::InvalidArgumentError(
          absl::StrCat("--logit-bias: token ", id, " is given twice; give it once"));
    }
  }
  if (flags.seed) params->set_seed(*flags.seed);
  for (const std::string& stop : flags.stop) params->add_stop(stop);
  for (int32_t id : flags.stop_token_ids) params->add_stop_token_ids(id);
  if (flags.min_tokens) params->set_min_tokens(*flags.min_tokens);
  for (const std::string& word : flags.bad_words) params->add_bad_words(word);
  for (int32_t id : flags.allowed_token_ids) params->add_allowed_token_ids(id);
  params->set_ignore_eos(flags.ignore_eos);
  params->set_include_stop_str_in_output(flags.include_stop);
  if (flags.keep_special_tokens) params->set_skip_special_tokens(false);
  params->set_logprobs(flags.logprobs || flags.top_logprobs.value_or(0) > 0);
  if (flags.top_logprobs) params->set_top_logprobs(*flags.top_logprobs);
  return absl::OkStatus();
}

}  // namespace tutti::client
