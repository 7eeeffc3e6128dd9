// Masks of answers by grammars, one after the other.
//
// Thread: the pool's (grammar_pool.h), but for Write.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/ids.h"
#include "base/status.h"
#include "grammar/matcher.h"
#include "metrics/exposition.h"
#include "metrics/histogram.h"
#include "proto/peer_messages.h"
#include "worker/sampling/grammar_cache.h"

namespace tutti::worker {

// One answer on its way. The maker has it from the moment that it is asked for a mask until the
// mask is made, and whoever asked has it else.
struct MaskedAnswer {
  // ---- constant
  std::vector<TokenId> end_ids;  // that end the output
  uint32_t min_tokens = 0;       // until then they do not come, if others may
  bool ends_late = false;        // the vocabulary's own never do, if others may

  // ---- what was asked for
  absl::Status status;
  std::vector<uint32_t> mask;

  bool asked = false;  // guarded by the pool's mutex: the maker has it

  // ---- the maker's own
  v1::SequenceGrammar source;  // until the grammar is made
  std::shared_ptr<GrammarCache::Entry> entry;
  std::optional<grammar::Matcher> matcher;
  uint64_t generation = 0;   // of the entry, that the matcher is of
  std::vector<TokenId> ids;  // the output so far
};

class MaskMaker {
 public:
  // `bounds`: less in tests only.
  explicit MaskMaker(const GrammarCache::Bounds& bounds);

  // REQUIRES: lengths and end_ids are those of a model with so many ids
  void SetVocabulary(const v1::Vocabulary& vocabulary, int32_t vocab_size);

  // Makes its grammar.
  void Begin(const std::shared_ptr<MaskedAnswer>& answer);
  // Told while a long output is read again.
  using Progress = std::function<void()>;

  // The mask of the token behind its output and `more`, into answer->mask; or answer->status, which
  // stays.
  void Make(const std::shared_ptr<MaskedAnswer>& answer, std::span<const TokenId> more,
            const Progress& progress = nullptr);
  void Forget(const std::shared_ptr<MaskedAnswer>& answer);

  // Thread: any.
  void Write(metrics::Exposition* to) const;

 private:
  absl::Status Mask(MaskedAnswer* answer, std::span<const TokenId> more, const Progress& progress);
  absl::Status Feed(MaskedAnswer* answer, size_t from, const Progress& progress);
  void PlaceEnds(MaskedAnswer* answer) const;
  void DropStaleMatchers();

  GrammarCache cache_;
  absl::Status vocabulary_status_;
  absl::flat_hash_set<std::shared_ptr<MaskedAnswer>> answers_;

  // Others read.
  metrics::Histogram mask_seconds_;
  metrics::Counter undrawable_;
  std::atomic<int64_t> answers_now_{0}, grammars_{0}, bytes_{0};
};

}  // namespace tutti::worker
