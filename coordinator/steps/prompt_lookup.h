// Guesses from a sequence's own text: its last tokens have stood before, in the prompt or in the
// output, and what followed them there follows again. Of the places where they stand, that with
// the longest equal text before it counts, and of equal ones the latest.
//
// A sequence's tokens are indexed while it runs, at most kIndexedInStep in a step over all
// sequences, and kIndexedLeast of each in any case: a question takes some microseconds however long
// the text is, and of a long prompt the first part is known before the rest. Nothing is ever
// indexed a second time.
//
// Memory: parts of 16 KiB for 2,048 tokens each, all of them together at most `bytes_max`, which is
// what bytes() counts; besides some hundred bytes for each sequence that has one, and eight for
// each part. A text for which no part is left, or that is longer than kLookupTokensMax, is looked
// up as far as it is known, or not at all.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "coordinator/steps/guess_source.h"
#include "coordinator/steps/text_index.h"

namespace tutti::coordinator {

class PromptLookup : public GuessSource {
 public:
  // `bytes_max`: of all sequences; less in tests only.
  explicit PromptLookup(int64_t bytes_max);

  void BeginStep() override;
  int32_t Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) override;
  void Forget(const Sequence& sequence) override;

  int64_t tokens() const { return tokens_; }
  int64_t bytes() const { return parts_ * TextIndex::kPartBytes; }

 private:
  const int64_t parts_max_;
  int64_t parts_ = 0;
  int64_t tokens_ = 0;  // indexed
  int32_t left_;        // to be indexed in this step
  absl::flat_hash_map<RequestId, TextIndex> indexes_;
};

}  // namespace tutti::coordinator
