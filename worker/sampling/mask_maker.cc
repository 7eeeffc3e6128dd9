#include "worker/sampling/mask_maker.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

bool HasBit(std::span<const uint32_t> mask, TokenId id) {
  const auto place = static_cast<size_t>(id);
  return (mask[place / 32] >> (place % 32) & 1) != 0;
}

void SetBit(TokenId id, std::vector<uint32_t>* mask) {
  const auto place = static_cast<size_t>(id);
  (*mask)[place / 32] |= uint32_t{1} << (place % 32);
}

void ClearBit(TokenId id, std::vector<uint32_t>* mask) {
  const auto place = static_cast<size_t>(id);
  (*mask)[place / 32] &= ~(uint32_t{1} << (place % 32));
}

bool IsEmpty(std::span<const uint32_t> mask) {
  return std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; });
}

// Takes the ids out, unless none is left then.
void TakeOut(std::span<const TokenId> ids, std::vector<uint32_t>* mask) {
  std::vector<TokenId> out;
  for (const TokenId id : ids) {
    if (!HasBit(*mask, id)) continue;
    ClearBit(id, mask);
    out.push_back(id);
  }
  if (!IsEmpty(*mask)) return;
  for (const TokenId id : out) SetBit(id, mask);
}

}  // namespace

MaskMaker::MaskMaker(const GrammarCache::Bounds& bounds)
    : cache_(bounds),
      mask_seconds_({1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1}) {}

void MaskMaker::SetVocabulary(const v1::Vocabulary& vocabulary, int32_t vocab_size) {
  std::vector<std::string_view> bytes;
  bytes.reserve(static_cast<size_t>(vocabulary.lengths_size()));
  std::string_view rest = vocabulary.text();
  for (const uint32_t length : vocabulary.lengths()) {
    bytes.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  const std::vector<TokenId> ends(vocabulary.end_ids().begin(), vocabulary.end_ids().end());
  const std::vector<TokenId> special(vocabulary.special_ids().begin(),
                                     vocabulary.special_ids().end());
  auto trie = grammar::TokenTrie::Create(bytes, ends, vocab_size, special);
  vocabulary_status_ = trie.status();
  cache_.SetVocabulary(trie.ok() ? std::make_shared<const grammar::TokenTrie>(*std::move(trie))
                                 : nullptr);
}

void MaskMaker::Begin(const std::shared_ptr<MaskedAnswer>& answer) {
  answers_.insert(answer);
  answers_now_ = static_cast<int64_t>(answers_.size());
  if (answer->entry != nullptr || !answer->status.ok()) return;
  auto entry = vocabulary_status_.ok() ? cache_.Find(answer->source) : vocabulary_status_;
  answer->source.Clear();
  if (entry.ok()) {
    answer->entry = *std::move(entry);
  } else {
    answer->status = Annotate(entry.status(), "the grammar cannot be made");
  }
  grammars_ = cache_.size();
}

void MaskMaker::Make(const std::shared_ptr<MaskedAnswer>& answer, std::span<const TokenId> more,
                     const Progress& progress) {
  Begin(answer);
  if (!answer->status.ok()) return;
  const auto begin = std::chrono::steady_clock::now();
  answer->status = Mask(answer.get(), more, progress);
  mask_seconds_.Observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (!answer->status.ok()) undrawable_.Add();
  if (cache_.Trim(answer->entry.get())) DropStaleMatchers();
  grammars_ = cache_.size();
  bytes_ = cache_.bytes();
}

absl::Status MaskMaker::Mask(MaskedAnswer* answer, std::span<const TokenId> more,
                             const Progress& progress) {
  size_t from = answer->ids.size();
  answer->ids.insert(answer->ids.end(), more.begin(), more.end());
  if (!answer->matcher || answer->generation != answer->entry->generation()) {
    answer->matcher.emplace(cache_.AutomatonOf(answer->entry.get()));
    answer->generation = answer->entry->generation();
    from = 0;
  }
  TUTTI_RETURN_IF_ERROR(Feed(answer, from, progress));
  answer->mask.resize(answer->entry->tokens().words());
  if (absl::Status made = answer->matcher->Mask(answer->mask); !made.ok()) {
    return Annotate(made,
                    absl::StrCat("the grammar, for token ", answer->ids.size(), " of the output"));
  }
  PlaceEnds(answer);
  if (!IsEmpty(answer->mask)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the grammar has no token of this model for position ", answer->ids.size(),
                   " of the output"));
}

absl::Status MaskMaker::Feed(MaskedAnswer* answer, size_t from, const Progress& progress) {
  for (size_t i = from; i < answer->ids.size(); ++i) {
    if (progress && (i - from) % kFedTokensPerTell == kFedTokensPerTell - 1) progress();
    const absl::Status taken = answer->matcher->AcceptToken(answer->ids[i]);
    if (!taken.ok())
      return Annotate(taken, absl::StrCat("the grammar, at token ", i, " of the output"));
  }
  return absl::OkStatus();
}

// The matcher knows the vocabulary's own ends; a request may have others, and want them late.
void MaskMaker::PlaceEnds(MaskedAnswer* answer) const {
  const std::vector<TokenId>& own = answer->entry->tokens().ends();
  std::vector<uint32_t>& mask = answer->mask;
  const bool may_end =
      std::any_of(own.begin(), own.end(), [&](TokenId id) { return HasBit(mask, id); });
  if (may_end) {
    for (const TokenId id : answer->end_ids) SetBit(id, &mask);
  }
  std::vector<TokenId> wait;
  if (answer->ends_late) wait = own;
  if (answer->ids.size() < answer->min_tokens) {
    wait.insert(wait.end(), answer->end_ids.begin(), answer->end_ids.end());
  }
  TakeOut(wait, &mask);
}

void MaskMaker::DropStaleMatchers() {
  for (const auto& answer : answers_) {
    if (answer->entry != nullptr && answer->generation != answer->entry->generation()) {
      answer->matcher.reset();
    }
  }
}

void MaskMaker::Forget(const std::shared_ptr<MaskedAnswer>& answer) {
  answers_.erase(answer);
  answer->matcher.reset();
  answer->entry.reset();
  answers_now_ = static_cast<int64_t>(answers_.size());
}

void MaskMaker::Write(metrics::Exposition* to) const {
  using metrics::Kind;
  to->Single("tutti_worker_grammar_answers", Kind::kGauge,
             "Sequences whose text a grammar constrains.", static_cast<double>(answers_now_));
  to->Single("tutti_worker_grammars", Kind::kGauge,
             "Grammars that are held, those of no sequence among them.",
             static_cast<double>(grammars_));
  to->Single("tutti_worker_grammar_bytes", Kind::kGauge, "Memory of grammars and their automata.",
             static_cast<double>(bytes_));
  to->Single("tutti_worker_undrawable_total", Kind::kCounter,
             "Answers that ended because their grammar allowed no token.", undrawable_.value());
  to->Begin("tutti_worker_mask_seconds", Kind::kHistogram, "Time to make the mask of one token.");
  mask_seconds_.Write({}, to);
}

}  // namespace tutti::worker
