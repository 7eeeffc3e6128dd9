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

MaskMaker::MaskMaker(const GrammarCache::Bounds& bounds, const MakerPatience& patience)
    : patience_(patience),
      cache_(bounds),
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
  if (!trie.ok()) return ShareVocabulary(trie.status());
  ShareVocabulary(std::make_shared<const grammar::TokenTrie>(*std::move(trie)));
}

void MaskMaker::ShareVocabulary(absl::StatusOr<std::shared_ptr<const grammar::TokenTrie>> tokens) {
  vocabulary_status_ = tokens.status();
  const auto trie = tokens.ok() ? *std::move(tokens) : nullptr;
  if (trie == nullptr || trie != cache_.tokens()) cache_.SetVocabulary(trie);
}

absl::StatusOr<std::shared_ptr<const grammar::TokenTrie>> MaskMaker::vocabulary() const {
  if (!vocabulary_status_.ok()) return vocabulary_status_;
  return cache_.tokens();
}

bool MaskMaker::Begin(const std::shared_ptr<MaskedAnswer>& answer) {
  answers_.insert(answer);
  answers_now_ = static_cast<int64_t>(answers_.size());
  if (answer->entry != nullptr || !answer->status.ok()) return true;
  auto entry = vocabulary_status_.ok() ? cache_.Find(answer->source, patience_.build_work)
                                       : vocabulary_status_;
  if (absl::IsAborted(entry.status())) return false;
  answer->source.Clear();
  if (!entry.ok()) {
    answer->status = Annotate(entry.status(), "the grammar cannot be made");
    return true;
  }
  answer->entry = *std::move(entry);
  // Whether or not a mask is ever asked for.
  Trim(answer->entry.get());
  return true;
}

void MaskMaker::Trim(GrammarCache::Entry* in_use) {
  if (cache_.Trim(in_use)) DropStaleMatchers();
  grammars_ = cache_.size();
  bytes_ = cache_.bytes();
}

MaskMaker::Made MaskMaker::Make(const std::shared_ptr<MaskedAnswer>& answer,
                                std::span<const TokenId> more, const Progress& progress) {
  answer->ids.insert(answer->ids.end(), more.begin(), more.end());
  if (!Begin(answer)) return Made::kNot;
  if (!answer->status.ok()) return Made::kDone;
  const double mean =
      answer->mask_seconds / static_cast<double>(std::max<int64_t>(answer->masks, 1));
  if (patience_.mean_mask.has_value() && answer->masks >= kMasksOfMean &&
      mean > Seconds(*patience_.mean_mask)) {
    return Made::kNot;
  }
  // Others that run meanwhile do not make it a slow one.
  const Duration begin = ThreadTime();
  const absl::Status made = Mask(answer.get(), progress);
  if (absl::IsAborted(made)) return Made::kNot;
  if (absl::IsUnavailable(made)) return Made::kPart;
  answer->status = made;
  const double seconds = Seconds(ThreadTime() - begin);
  mask_seconds_.Observe(seconds);
  answer->mask_seconds += seconds;
  ++answer->masks;
  if (!answer->status.ok()) undrawable_.Add();
  Trim(answer->entry.get());
  return Made::kDone;
}

absl::Status MaskMaker::Mask(MaskedAnswer* answer, const Progress& progress) {
  if (!answer->matcher || answer->generation != answer->entry->generation()) {
    answer->matcher.emplace(cache_.AutomatonOf(answer->entry.get()));
    answer->generation = answer->entry->generation();
  }
  TUTTI_RETURN_IF_ERROR(Feed(answer, progress));
  answer->mask.resize(answer->entry->tokens().words());
  LimitOperation(answer);
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

// ABORTED: a token takes more than its patience; UNAVAILABLE: others have their turn.
absl::Status MaskMaker::Feed(MaskedAnswer* answer, const Progress& progress) {
  const Instant begin = std::chrono::steady_clock::now();
  const size_t from = answer->matcher->accepted();
  for (size_t i = from; i < answer->ids.size(); ++i) {
    if (i > from && std::chrono::steady_clock::now() - begin > patience_.turn) {
      return absl::UnavailableError("others have their turn");
    }
    if (progress && (i - from) % kFedTokensPerTell == kFedTokensPerTell - 1) progress();
    LimitOperation(answer);
    const absl::Status taken = answer->matcher->AcceptToken(answer->ids[i]);
    if (!taken.ok()) {
      return Annotate(taken, absl::StrCat("the grammar, at token ", i, " of the output"));
    }
  }
  return absl::OkStatus();
}

void MaskMaker::LimitOperation(MaskedAnswer* answer) const {
  if (!patience_.mask.has_value()) return;
  answer->matcher->EndAt(ThreadTime() + *patience_.mask);
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

bool MaskMaker::IsQuick(const MaskedAnswer& answer) {
  return answer.masks > 0 &&
         answer.mask_seconds < Seconds(kProvenMaskTime) * static_cast<double>(answer.masks);
}

void MaskMaker::Release(const std::shared_ptr<MaskedAnswer>& answer) {
  if (answer->entry != nullptr) {
    answer->source = answer->entry->source();
    // What was broken off has grown it, too.
    Trim(answer->entry.get());
  }
  answer->masks = 0;
  answer->mask_seconds = 0;
  Forget(answer);
}

void MaskMaker::Forget(const std::shared_ptr<MaskedAnswer>& answer) {
  answers_.erase(answer);
  answer->matcher.reset();
  answer->entry.reset();
  answers_now_ = static_cast<int64_t>(answers_.size());
}

void MaskMaker::Write(std::span<const Named> makers, metrics::Exposition* to) {
  using metrics::Kind;
  int64_t answers = 0, grammars = 0, bytes = 0;
  double undrawable = 0;
  for (const Named& named : makers) {
    answers += named.maker->answers_now_;
    grammars += named.maker->grammars_;
    bytes += named.maker->bytes_;
    undrawable += named.maker->undrawable_.value();
  }
  to->Single("tutti_worker_grammar_answers", Kind::kGauge,
             "Sequences whose text a grammar constrains.", static_cast<double>(answers));
  to->Single("tutti_worker_grammars", Kind::kGauge,
             "Grammars that are held, those of no sequence among them.",
             static_cast<double>(grammars));
  to->Single("tutti_worker_grammar_bytes", Kind::kGauge, "Memory of grammars and their automata.",
             static_cast<double>(bytes));
  to->Single("tutti_worker_undrawable_total", Kind::kCounter,
             "Answers that ended because their grammar allowed no token.", undrawable);
  to->Begin("tutti_worker_mask_seconds", Kind::kHistogram,
            "Time to make the mask of one token; by maker: the quick one has all but those answers "
            "that take it too long.");
  for (const Named& named : makers) {
    named.maker->mask_seconds_.Write({{"maker", std::string(named.name)}}, to);
  }
}

}  // namespace tutti::worker
