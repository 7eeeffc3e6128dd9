// Guesses from a sequence's own text: its last tokens have stood before, in the prompt or in the
// output, and what followed them there follows again. Of the places where they stand, that with
// the longest equal text before it counts, and of equal ones the latest.
//
// A sequence's tokens are indexed while it runs, at most kIndexedEach of them for each question, so
// that none takes more than some microseconds; of a long prompt the first part is known before the
// rest. Memory is some 8 bytes a token, for at most so many tokens of a sequence and of all
// together; further ones are not looked up.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "coordinator/steps/guess_source.h"

namespace tutti::coordinator {

// The places of a text, by the tokens before them.
class TextIndex {
 public:
  // Tokens that must be equal before a place, and those that are compared at most.
  static constexpr int32_t kEqualMin = 3;
  static constexpr int32_t kEqualMax = 32;

  // Indexes at most `most` tokens more of a text that goes on with each call, and says whether that
  // is all of it.
  bool Add(std::span<const TokenId> text, int32_t most);
  // The place before which the same tokens stand as at the text's end; -1: none.
  //   text  at least what has been indexed
  int32_t Find(std::span<const TokenId> text) const;

  int32_t size() const { return static_cast<int32_t>(before_.size()); }
  int64_t bytes() const {
    return static_cast<int64_t>((before_.capacity() + latest_.capacity()) * sizeof(int32_t));
  }

 private:
  // Places with the same hash that are looked at, from the latest.
  static constexpr int32_t kPlacesMax = 16;

  size_t SlotOf(std::span<const TokenId> text, int32_t place) const;
  void Widen(std::span<const TokenId> text);

  // [places]: the place before with the same hash; -1: none. A place has kEqualMin tokens before it
  // at least.
  std::vector<int32_t> before_;
  std::vector<int32_t> latest_;  // [a power of two], by hash
};

class PromptLookup : public GuessSource {
 public:
  // `tokens_max`: of all sequences; less in tests only.
  explicit PromptLookup(int64_t tokens_max);

  void Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) override;
  void Forget(const Sequence& sequence) override;

  int64_t tokens() const { return tokens_; }

 private:
  const int64_t tokens_max_;
  int64_t tokens_ = 0;  // indexed
  absl::flat_hash_map<RequestId, TextIndex> indexes_;
};

}  // namespace tutti::coordinator
