#include "coordinator/service/prompt_reasoning.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "coordinator/limits.h"

namespace tutti::coordinator {

bool EndsInReasoning(std::span<const TokenId> prompt, const text::Tokenizer& tokenizer) {
  const size_t most = std::min(prompt.size(), kTurnTokensMax);
  const std::span<const TokenId> end = prompt.last(most);
  const auto special =
      std::find_if(end.rbegin(), end.rend(), [&](TokenId id) { return tokenizer.IsSpecial(id); });
  std::string turn;
  for (auto at = special.base(); at != end.end(); ++at) {
    turn += tokenizer.TokenText(*at).value_or("");
  }
  const size_t begun = turn.rfind("<think>");
  return begun != std::string::npos && turn.find("</think>", begun) == std::string::npos;
}

}  // namespace tutti::coordinator
