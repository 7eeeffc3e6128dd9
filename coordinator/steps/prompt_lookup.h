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

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "coordinator/steps/guess_source.h"

namespace tutti::coordinator {

// The places of a text, by the tokens before them. The text is divided into parts of equal length,
// each with a table of its own: so a table is small enough for the nearest cache, none grows, and a
// text that becomes longer costs one part more.
class TextIndex {
 public:
  // Tokens that must be equal before a place, and those that are compared at most.
  static constexpr int32_t kEqualMin = 3;
  static constexpr int32_t kEqualMax = 32;
  static constexpr int32_t kPartBits = 11;
  static constexpr int32_t kPartTokens = 1 << kPartBits;
  static constexpr int64_t kPartBytes = int64_t{8} * kPartTokens;

  // Indexes at most `most` tokens more of a text that goes on with each call, as long as there are
  // `parts_max` parts at most.
  void Add(std::span<const TokenId> text, int32_t most, int64_t parts_max);
  // The place before which the same tokens stand as at the text's end; -1: none. `equal`, if not
  // null, is set to how many of them are the same, at most kEqualMax.
  //   text  at least what has been indexed
  int32_t Find(std::span<const TokenId> text, int32_t* equal = nullptr) const;

  int32_t size() const { return size_; }
  int64_t parts() const { return static_cast<int64_t>(parts_.size()); }
  int64_t bytes() const { return parts() * kPartBytes; }

 private:
  // A place of the part, counted from 1, in the lowest bits, and a part of its hash above them; 0:
  // none.
  using Entry = uint32_t;
  struct Part {
    std::array<Entry, kPartTokens> latest{};  // by hash
    std::array<Entry, kPartTokens> before;    // of each place: the one before it with that hash
  };
  static_assert(sizeof(Part) == kPartBytes);
  struct Key {
    uint32_t slot;
    uint32_t tag;  // of an entry, in its place
  };
  static constexpr Entry kPlaceMask = (Entry{2} << kPartBits) - 1;
  // Places with the same hash that are looked at, from the latest; and entries, of which a text can
  // be made to have many with one slot.
  static constexpr int32_t kPlacesMax = 16;
  static constexpr int32_t kEntriesMax = 256;

  static Key KeyOf(std::span<const TokenId> text, int32_t place);

  int32_t size_ = 0;  // tokens
  std::vector<std::unique_ptr<Part>> parts_;
};

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
