#include "coordinator/service/prompt_reasoning.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "coordinator/limits.h"

namespace tutti::coordinator {

namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";

}  // namespace

PromptReasoning ReasoningOf(std::span<const TokenId> prompt, const text::Tokenizer& tokenizer) {
  const size_t most = std::min(prompt.size(), kTurnTokensMax);
  const std::span<const TokenId> end = prompt.last(most);
  const auto special =
      std::find_if(end.rbegin(), end.rend(), [&](TokenId id) { return tokenizer.IsSpecial(id); });
  std::string turn;
  for (auto at = special.base(); at != end.end(); ++at) {
    turn += tokenizer.TokenText(*at).value_or("");
  }
  const size_t begun = turn.rfind(kOpen);
  if (begun == std::string::npos) return PromptReasoning::kNone;
  return turn.find(kClose, begun) == std::string::npos ? PromptReasoning::kOpened
                                                       : PromptReasoning::kClosed;
}

v1::GrammarPreface PrefaceOf(PromptReasoning reasoning, std::string_view template_source) {
  v1::GrammarPreface preface;
  const bool knows = template_source.find(kOpen) != std::string_view::npos;
  if (reasoning == PromptReasoning::kClosed || (reasoning == PromptReasoning::kNone && !knows)) {
    return preface;
  }
  if (reasoning == PromptReasoning::kNone) preface.set_open(std::string(kOpen));
  preface.set_close(std::string(kClose));
  return preface;
}

}  // namespace tutti::coordinator
