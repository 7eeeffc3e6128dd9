#include "gateway/sampling_fields.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

// Fields that make no difference here, and fields that we cannot honour yet.
constexpr UnservedField kUnserved[] = {
    // Never part of an answer.
    {"user", "*"},
    {"metadata", "*"},
    {"store", "*"},
    {"service_tier", "*"},
    {"safety_identifier", "*"},
    {"prompt_cache_key", "*"},
    {"prompt_cache_retention", "*"},
    {"prompt_cache_options", "*"},
    {"cache_control", "*"},
    {"mm_payload", "*"},
    {"return_mm_kwargs", "*"},
    {"session_id", "*"},
    {"request_id", "*"},
    {"prediction", "*"},
    {"stream_interval", "*"},
    {"return_weight_versions", "false"},
    {"spaces_between_special_tokens", "true"},
    {"use_beam_search", "false"},
    {"length_penalty", "1.0"},
    {"early_stopping", "false"},
    {"logprob_token_ids"},
    {"return_token_offsets", "false"},
    {"return_prompt_text", "false"},
    {"truncation_side", R"("left")"},
    {"thinking_token_budget"},
    {"repetition_detection"},
    {"watermarking"},
    {"logits_processors"},
    {"kv_transfer_params"},
    {"ec_transfer_params"},
    {"vllm_xargs"},
};

void ReadPenalties(FieldReader* fields, v1::SamplingParams* sampling) {
  if (const auto value = fields->Number("temperature")) sampling->set_temperature(*value);
  if (const auto value = fields->Number("top_p")) sampling->set_top_p(*value);
  if (const auto value = fields->Number("min_p")) sampling->set_min_p(*value);
  if (const auto value = fields->Integer("top_k", -kInt32Max, kInt32Max)) {
    sampling->set_top_k(static_cast<int32_t>(*value));
  }
  if (const auto value = fields->Number("repetition_penalty")) {
    sampling->set_repetition_penalty(*value);
  }
  if (const auto value = fields->Number("presence_penalty")) sampling->set_presence_penalty(*value);
  if (const auto value = fields->Number("frequency_penalty")) {
    sampling->set_frequency_penalty(*value);
  }
}

// The first of them, as an error names them.
std::string KeysThatAreNoIds(const Json& object) {
  std::vector<std::string> wrong;
  for (const auto& [key, value] : object.items()) {
    int32_t id = 0;
    // "+5" and " 5" would be other names of "5".
    if (absl::SimpleAtoi(key, &id) && absl::StrCat(id) == key) continue;
    wrong.push_back(Dump(OrderedJson(key.substr(0, kNamedKeyBytesMax))));
    if (wrong.size() == kNamedKeysMax) break;
  }
  return absl::StrJoin(wrong, ", ");
}

// Keys are ids of tokens, as texts.
void ReadLogitBias(FieldReader* fields, v1::SamplingParams* sampling) {
  const Json* bias = fields->Find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) return fields->Fail("logit_bias", "is not an object");
  if (bias->size() > kBiasesMax) {
    return fields->Fail("logit_bias", absl::StrCat("has ", bias->size(), " biases: too many"));
  }
  if (const std::string wrong = KeysThatAreNoIds(*bias); !wrong.empty()) {
    return fields->Fail("logit_bias", absl::StrCat("has keys that are no token ids: ", wrong));
  }
  for (const auto& [key, value] : bias->items()) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(key, &id)) continue;
    if (!value.is_number()) {
      return fields->Fail(absl::StrCat("logit_bias[", id, "]"), "is not a number");
    }
    (*sampling->mutable_logit_bias())[id] = static_cast<float>(value.get<double>());
  }
}

void ReadEnd(FieldReader* fields, v1::SamplingParams* sampling) {
  if (const auto stops = fields->Texts("stop")) {
    for (const std::string& stop : *stops) sampling->add_stop(stop);
  }
  if (const auto ids = fields->Ids("stop_token_ids")) {
    sampling->mutable_stop_token_ids()->Assign(ids->begin(), ids->end());
  }
  sampling->set_ignore_eos(fields->Bool("ignore_eos").value_or(false));
  sampling->set_include_stop_str_in_output(
      fields->Bool("include_stop_str_in_output").value_or(false));
  if (const auto skip = fields->Bool("skip_special_tokens")) {
    sampling->set_skip_special_tokens(*skip);
  }
}

void ReadMask(FieldReader* fields, v1::SamplingParams* sampling) {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  if (const auto least = fields->Integer("min_tokens", 0, kMax)) {
    sampling->set_min_tokens(static_cast<uint32_t>(*least));
  }
  if (const auto words = fields->Texts("bad_words")) {
    for (const std::string& word : *words) sampling->add_bad_words(word);
  }
  if (const auto ids = fields->Ids("allowed_token_ids")) {
    if (ids->empty()) return fields->Fail("allowed_token_ids", "is empty: no token could be drawn");
    sampling->mutable_allowed_token_ids()->Assign(ids->begin(), ids->end());
  }
}

}  // namespace

void ReadSamplingFields(FieldReader* fields, v1::GenerateRequest* call) {
  v1::SamplingParams* sampling = call->mutable_sampling();
  if (const auto model = fields->Text("model")) call->set_model(*model);
  if (const auto n = fields->Integer("n", 1, kOutputsMax)) call->set_n(static_cast<uint32_t>(*n));
  if (const auto priority = fields->Integer("priority", -kInt32Max, kInt32Max)) {
    call->set_priority(static_cast<int32_t>(*priority));
  }
  if (const auto best = fields->Integer("best_of", 1, kInt32Max)) {
    if (*best != std::max<int64_t>(call->n(), 1)) {
      fields->Fail("best_of", "is not served here yet; leave it out, or say what n says");
    }
  }
  if (const auto seed = fields->Integer("seed", std::numeric_limits<int64_t>::min(),
                                        std::numeric_limits<int64_t>::max())) {
    sampling->set_seed(static_cast<uint64_t>(*seed));
  }
  ReadPenalties(fields, sampling);
  ReadLogitBias(fields, sampling);
  ReadEnd(fields, sampling);
  ReadMask(fields, sampling);
  if (const auto salt = fields->Text("cache_salt")) call->set_cache_salt(*salt);
  if (const auto keep = fields->Integer("truncate_prompt_tokens", 0, kInt32Max)) {
    call->set_truncate_prompt_tokens(static_cast<uint32_t>(*keep));
  }
}

void RefuseUnserved(FieldReader* fields) {
  for (const UnservedField& field : kUnserved) fields->Refuse(field);
  fields->RefuseOthers();
}

}  // namespace tutti::gateway
