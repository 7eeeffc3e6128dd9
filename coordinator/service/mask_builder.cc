#include "coordinator/service/mask_builder.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/service/limits.h"
#include "coordinator/steps/plan_size.h"

namespace tutti::coordinator {
namespace {

// Each word has two spellings.
static_assert(2 * kBadWordsMax <= kBannedMax);

absl::Status BadWord(std::string_view path, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(path.data(), path.size()), " ",
                                                 absl::string_view(what.data(), what.size())));
}

// The word at the beginning of a text and inside one: as it stands and behind a space, which are
// mostly other tokens.
absl::Status AddWord(std::string_view word, const std::string& path, const ServedModel& model,
                     std::set<std::vector<TokenId>>* banned) {
  if (static_cast<int64_t>(word.size()) > kBadWordBytesMax) {
    return BadWord(path,
                   absl::StrCat("has ", word.size(), " bytes, the limit is ", kBadWordBytesMax));
  }
  const size_t begin = word.find_first_not_of(" \t\n\v\f\r");
  if (begin == std::string_view::npos) return BadWord(path, "has nothing but white space");
  for (const std::string_view space : {"", " "}) {
    const std::string text = std::string(space) + std::string(word.substr(begin));
    absl::StatusOr<std::vector<TokenId>> ids = model.tokenizer->Encode(text);
    if (!ids.ok()) return Annotate(ids.status(), path);
    if (ids->empty()) return BadWord(path, "has no tokens");
    // One with a token that the model has no row for never comes.
    const bool may_come = std::all_of(ids->begin(), ids->end(),
                                      [&](TokenId id) { return id < model.config.vocab_size; });
    if (may_come) banned->insert(*std::move(ids));
  }
  return absl::OkStatus();
}

absl::Status BuildBadWords(const v1::SamplingParams& params, const ServedModel& model,
                           v1::SequenceSampling* sampling) {
  if (params.bad_words_size() == 0) return absl::OkStatus();
  if (model.tokenizer == nullptr) {
    return BadWord("sampling.bad_words:",
                   absl::StrCat("model '", model.name,
                                "' has no tokenizer files, so its answers have "
                                "no text; use logit_bias"));
  }
  if (params.bad_words_size() > kBadWordsMax) {
    return BadWord("sampling.bad_words", absl::StrCat("has ", params.bad_words_size(),
                                                      " words, the limit is ", kBadWordsMax));
  }
  std::set<std::vector<TokenId>> banned;
  for (int i = 0; i < params.bad_words_size(); ++i) {
    TUTTI_RETURN_IF_ERROR(
        AddWord(params.bad_words(i), absl::StrCat("sampling.bad_words[", i, "]"), model, &banned));
  }
  for (const std::vector<TokenId>& ids : banned) {
    sampling->add_banned()->mutable_ids()->Assign(ids.begin(), ids.end());
  }
  return absl::OkStatus();
}

absl::Status BuildAllowed(const v1::SamplingParams& params, const ServedModel& model,
                          v1::SequenceSampling* sampling) {
  if (params.allowed_token_ids_size() > kAllowedTokenIdsMax) {
    return BadWord("sampling.allowed_token_ids",
                   absl::StrCat("has ", params.allowed_token_ids_size(), " ids, the limit is ",
                                kAllowedTokenIdsMax));
  }
  std::vector<TokenId> ids(params.allowed_token_ids().begin(), params.allowed_token_ids().end());
  for (size_t i = 0; i < ids.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(
        CheckTokenId(ids[i], model, absl::StrCat("sampling.allowed_token_ids[", i, "]")));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  sampling->mutable_allowed_ids()->Assign(ids.begin(), ids.end());
  return absl::OkStatus();
}

// Whatever the output, a token must be left, or the request would end as if the model had lost its
// numbers.
absl::Status CheckLeavesToken(const v1::SequenceSampling& sampling, const ServedModel& model) {
  const auto& allowed = sampling.allowed_ids();
  const auto may_come = [&allowed](TokenId id) {
    return allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), id);
  };
  std::set<TokenId> excluded;
  for (const TokenId id : sampling.end_ids()) {
    if (may_come(id)) excluded.insert(id);
  }
  for (const v1::BannedTokens& banned : sampling.banned()) {
    // One of whose tokens never comes excludes nothing.
    if (std::all_of(banned.ids().begin(), banned.ids().end(), may_come)) {
      excluded.insert(banned.ids(banned.ids_size() - 1));
    }
  }
  const int64_t all = allowed.empty() ? model.config.vocab_size : int64_t{allowed.size()};
  if (static_cast<int64_t>(excluded.size()) < all) return absl::OkStatus();
  return BadWord(
      allowed.empty() ? "sampling.bad_words" : "sampling.allowed_token_ids",
      "may leave no token to be drawn: bad_words, or min_tokens and the tokens that end the "
      "output, exclude all of them");
}

}  // namespace

absl::Status BuildMask(const v1::SamplingParams& params, std::span<const TokenId> end_ids,
                       const ServedModel& model, v1::SequenceSampling* sampling) {
  sampling->set_min_tokens(params.min_tokens());
  if (params.min_tokens() > 0) {
    sampling->mutable_end_ids()->Assign(end_ids.begin(), end_ids.end());
  }
  TUTTI_RETURN_IF_ERROR(BuildAllowed(params, model, sampling));
  TUTTI_RETURN_IF_ERROR(BuildBadWords(params, model, sampling));
  return CheckLeavesToken(*sampling, model);
}

}  // namespace tutti::coordinator
