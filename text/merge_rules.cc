#include "text/merge_rules.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

class RuleMaker {
 public:
  RuleMaker(const Vocabulary& vocabulary, bool from_characters) : vocabulary_(vocabulary) {
    rules_.from_characters = from_characters;
  }

  void CutEverywhere(TokenId id, uint32_t rank) {
    const std::string_view token = vocabulary_.Bytes(id);
    for (size_t cut = Step(token); cut < token.size(); cut += Step(token.substr(cut))) {
      const std::optional<TokenId> left = Symbol(token.substr(0, cut));
      if (!left.has_value()) continue;
      const std::optional<TokenId> right = Symbol(token.substr(cut));
      if (right.has_value()) rules_.merges.push_back({*left, *right, id, rank});
    }
  }

  BytePairs::Rules Take() { return std::move(rules_); }

 private:
  // Bytes of the first symbol of `text` before anything is merged.
  size_t Step(std::string_view text) const {
    return rules_.from_characters ? static_cast<size_t>(FirstUtf8Unit(text).length) : 1;
  }

  // The symbol of `text` while merging: a token, or a character without one.
  std::optional<TokenId> Symbol(std::string_view text) {
    const std::optional<TokenId> token = vocabulary_.Find(text);
    if (token.has_value() || !rules_.from_characters || Step(text) < text.size()) return token;
    const auto next = static_cast<TokenId>(vocabulary_.size() + rules_.tokenless.size());
    const auto [found, inserted] = tokenless_.emplace(text, next);
    if (inserted) rules_.tokenless.emplace_back(text);
    return found->second;
  }

  const Vocabulary& vocabulary_;
  BytePairs::Rules rules_;
  absl::flat_hash_map<std::string, TokenId> tokenless_;
};

}  // namespace

absl::StatusOr<BytePairs::Rules> RulesFromRanks(const Vocabulary& vocabulary,
                                                const std::vector<uint32_t>& ranks,
                                                bool from_characters) {
  CHECK(ranks.size() == static_cast<size_t>(vocabulary.size()));
  RuleMaker maker(vocabulary, from_characters);
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (ranks[id] == kNeverMerged) continue;
    const std::string_view token = vocabulary.Bytes(id);
    if (token.size() > kRankedTokenBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " has ", token.size(),
                                                     " bytes, at most ", kRankedTokenBytesMax));
    }
    if (from_characters && FindInvalidUtf8(token).has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " is not valid UTF-8"));
    }
    maker.CutEverywhere(id, ranks[id]);
  }
  return maker.Take();
}

}  // namespace tutti::text
