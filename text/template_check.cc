#include "text/template_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "text/absl_text.h"
#include "text/text_break.h"

namespace tutti::text {
namespace {

constexpr std::string_view kAnswer = "fine";
constexpr size_t kMarkerBytesMax = 64;

std::optional<std::vector<Segment>> RenderConversation(const ChatTemplate& chat_template) {
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "hello"}},
                                           {{"role", "assistant"}, {"content", kAnswer}},
                                           {{"role", "user"}, {"content", "well"}}};
  auto segments = chat_template.Render(messages, {{"add_generation_prompt", true}});
  if (!segments.ok()) return std::nullopt;
  return *std::move(segments);
}

// The markers that a text of the template's has.
std::vector<std::string_view> MarkersIn(std::string_view text) {
  std::vector<std::string_view> markers;
  for (size_t at = 0; (at = text.find("<|", at)) != std::string_view::npos; ++at) {
    const size_t end = text.find("|>", at + 2);
    if (end == std::string_view::npos) break;
    const std::string_view marker = text.substr(at, end + 2 - at);
    const bool plain = marker.size() <= kMarkerBytesMax &&
                       marker.find_first_of(" \n<", 1) == std::string_view::npos;
    if (plain && marker != kTextBreak) markers.push_back(marker);
  }
  return markers;
}

std::optional<std::vector<TokenId>> IdsOf(const Tokenizer& tokenizer, std::string_view text) {
  const Segment segment{std::string(text), /*from_user=*/false};
  auto ids = tokenizer.EncodeSegments(std::span(&segment, 1));
  if (!ids.ok()) return std::nullopt;
  return *std::move(ids);
}

// The special token that the template writes first behind the answer.
std::optional<TokenId> EndOfAnswer(const std::vector<Segment>& segments,
                                   const Tokenizer& tokenizer) {
  const auto answer = std::find_if(segments.begin(), segments.end(), [](const Segment& segment) {
    return segment.from_user && segment.text.find(kAnswer) != std::string::npos;
  });
  if (answer == segments.end() || answer + 1 == segments.end()) return std::nullopt;
  const auto ids = IdsOf(tokenizer, (answer + 1)->text);
  if (!ids.has_value()) return std::nullopt;
  const auto special =
      std::find_if(ids->begin(), ids->end(), [&](TokenId id) { return tokenizer.IsSpecial(id); });
  if (special == ids->end()) return std::nullopt;
  return *special;
}

}  // namespace

std::vector<std::string> TemplateFaults(const ChatTemplate& chat_template,
                                        const Tokenizer& tokenizer, std::span<const TokenId> ends) {
  std::vector<std::string> faults;
  const auto segments = RenderConversation(chat_template);
  if (!segments.has_value()) return faults;
  std::set<std::string_view> looked_at;
  for (const Segment& segment : *segments) {
    if (segment.from_user) continue;
    for (const std::string_view marker : MarkersIn(segment.text)) {
      const auto ids = IdsOf(tokenizer, marker);
      if (!looked_at.insert(marker).second || !ids.has_value() || ids->size() == 1) continue;
      faults.push_back(absl::StrCat(
          "the chat template writes ", Absl(marker), ", which the tokenizer cuts into ",
          ids->size(),
          " ordinary tokens: the model does not see the markers that it was trained "
          "with, and answers badly; its added_tokens.json or tokenizer_config.json is missing or "
          "another model's"));
    }
  }
  const auto end = EndOfAnswer(*segments, tokenizer);
  if (end.has_value() && std::find(ends.begin(), ends.end(), *end) == ends.end()) {
    faults.push_back(absl::StrCat(
        "the chat template ends an answer with ", Absl(tokenizer.TokenText(*end).value_or("")),
        " (", *end, "), which is not among the tokens that end one (",
        absl::StrJoin(ends.begin(), ends.end(), ", "),
        "): answers go on past their end; name it as eos_token_id in generation_config.json"));
  }
  return faults;
}

}  // namespace tutti::text
