#include "gateway/kserve/sampling_text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace tutti::gateway {
namespace {

constexpr std::string_view kNumbers[] = {"n",
                                         "best_of",
                                         "presence_penalty",
                                         "frequency_penalty",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "seed",
                                         "max_tokens",
                                         "min_tokens",
                                         "logprobs",
                                         "priority",
                                         "prompt_logprobs",
                                         "length_penalty",
                                         "repetition_penalty",
                                         "beam_width",
                                         "truncate_prompt_tokens"};
constexpr std::string_view kBooleans[] = {"ignore_eos",          "include_stop_str_in_output",
                                          "skip_special_tokens", "spaces_between_special_tokens",
                                          "use_beam_search",     "early_stopping",
                                          "add_special_tokens",  "split_special_tokens"};

template <typename Names>
bool IsOneOf(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// A text that is no number stays a text, which is refused as such under its name.
void Mend(std::string_view name, Json* value) {
  if (!value->is_string()) return;
  const auto& text = value->get_ref<const std::string&>();
  if (IsOneOf(kNumbers, name)) {
    Json number = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (number.is_number()) *value = std::move(number);
  } else if (IsOneOf(kBooleans, name)) {
    const bool is_true = text == "true" || text == "True";
    if (is_true || text == "false" || text == "False") *value = is_true;
  }
}

}  // namespace

absl::StatusOr<ParsedJson> ReadSamplingText(std::string_view text) {
  if (text.empty()) return ParsedJson(Json::object());
  auto parsed = ParseObject(text);
  if (const auto* const error = std::get_if<ApiError>(&parsed)) {
    return absl::InvalidArgumentError(absl::StrCat("sampling_parameters: ", error->message));
  }
  auto& object = std::get<ParsedJson>(parsed);
  for (auto& [name, value] : object->items()) Mend(name, &value);
  return std::move(object);
}

}  // namespace tutti::gateway
