// Masks of answers by grammars, one after the other.
//
// Thread: one of the pool's (grammar_pool.h), but for Write.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "grammar/limits.h"
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

  // ---- guarded by the pool's mutex
  bool asked = false;        // a maker has it
  bool handed_over = false;  // to the patient one
  bool forgotten = false;    // nobody waits for it any more
  bool is_quick = false;     // its masks so far took little time

  // ---- the maker's own
  v1::SequenceGrammar source;  // until the grammar is made
  std::shared_ptr<GrammarCache::Entry> entry;
  std::optional<grammar::Matcher> matcher;
  uint64_t generation = 0;   // of the entry, that the matcher is of
  std::vector<TokenId> ids;  // the output so far
  int64_t masks = 0;         // that were made by this maker
  double mask_seconds = 0;   // that those took
};

// How long a maker may take for one thing while others wait for it, in time of its thread (turns:
// as clocks go).
struct MakerPatience {
  int64_t build_work = grammar::kBuildWorkMax;  // units, for a grammar
  std::optional<Duration> mask;                 // for a mask, and for a token that is read
  std::optional<Duration> mean_mask;            // for the masks of an answer in the mean
  Duration turn = Duration::max();              // for an output that is read again, in a row
};

class MaskMaker {
 public:
  // `bounds`: less in tests only.
  explicit MaskMaker(const GrammarCache::Bounds& bounds, const MakerPatience& patience = {});

  // REQUIRES: lengths and end_ids are those of a model with so many ids
  void SetVocabulary(const v1::Vocabulary& vocabulary, int32_t vocab_size);
  // That of another maker, unless it is this one's already.
  void ShareVocabulary(absl::StatusOr<std::shared_ptr<const grammar::TokenTrie>> tokens);
  absl::StatusOr<std::shared_ptr<const grammar::TokenTrie>> vocabulary() const;

  // Makes its grammar. False: that takes more than its patience.
  bool Begin(const std::shared_ptr<MaskedAnswer>& answer);
  // Told while a long output is read again.
  using Progress = std::function<void()>;

  enum class Made {
    kDone,
    kPart,  // others have their turn: Make again, with nothing more
    kNot,   // it takes more than its patience: another maker's, which begins anew (Release)
  };
  // The mask of the token behind its output and `more`, into answer->mask; or answer->status, which
  // stays.
  Made Make(const std::shared_ptr<MaskedAnswer>& answer, std::span<const TokenId> more,
            const Progress& progress = nullptr);
  // Whether the masks of the answer take so little time that they go before those of answers that
  // are not known yet.
  static bool IsQuick(const MaskedAnswer& answer);
  // The answer is another maker's from now on.
  void Release(const std::shared_ptr<MaskedAnswer>& answer);
  void Forget(const std::shared_ptr<MaskedAnswer>& answer);

  // Of all makers of a worker, each of which has a name.  Thread: any.
  struct Named {
    std::string_view name;
    const MaskMaker* maker = nullptr;
  };
  static void Write(std::span<const Named> makers, metrics::Exposition* to);

 private:
  absl::Status Mask(MaskedAnswer* answer, const Progress& progress);
  absl::Status Feed(MaskedAnswer* answer, const Progress& progress);
  void LimitOperation(MaskedAnswer* answer) const;
  void PlaceEnds(MaskedAnswer* answer) const;
  // The entry may have grown, or be new: makes room.
  void Trim(GrammarCache::Entry* in_use);
  void DropStaleMatchers();

  const MakerPatience patience_;
  GrammarCache cache_;
  absl::Status vocabulary_status_;
  absl::flat_hash_set<std::shared_ptr<MaskedAnswer>> answers_;

  // Others read.
  metrics::Histogram mask_seconds_;
  metrics::Counter undrawable_;
  std::atomic<int64_t> answers_now_{0}, grammars_{0}, bytes_{0};
};

}  // namespace tutti::worker
