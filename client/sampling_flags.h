// The flags that say how to choose tokens, under the names of the public API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "program/flags.h"
#include "tutti/v1/generation.pb.h"

namespace tutti::client {

// A flag that was not given leaves its field unset, so that the service's default applies.
struct SamplingFlags {
  std::optional<uint32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::vector<std::string> logit_bias;  // "id=value"
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  std::optional<uint32_t> min_tokens;
  std::vector<std::string> bad_words;
  std::vector<int32_t> allowed_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool logprobs = false;
  std::optional<uint32_t> top_logprobs;
};

inline constexpr absl::string_view kSeedHelp =
    "Same seed, same text; unset: the service chooses and tells";

// `seed_help` says how the command uses --seed.
void AddSamplingFlags(FlagSet* set, SamplingFlags* flags, absl::string_view seed_help = kSeedHelp);

// Limits are the service's to check; only values that the message cannot hold are refused here
// (INVALID_ARGUMENT).
absl::Status FillSampling(const SamplingFlags& flags, v1::SamplingParams* params);

}  // namespace tutti::client
