// Byte pair encoding: merges neighbouring tokens, the pair that was learned first before all
// others.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "model/vocabulary.h"

namespace tutti {

// Immutable.  Thread: any.
class BytePairs {
 public:
  struct Merge {
    TokenId left = 0;
    TokenId right = 0;
    TokenId merged = 0;
  };

  // `merges` in the order they were learned; of a pair given twice the later one counts, as in
  // HuggingFace tokenizers. `whole_words_first`: a piece that is itself a token is not merged up
  // from its bytes ("ignore_merges").  REQUIRES: every id is a token of `vocabulary`
  BytePairs(Vocabulary vocabulary, const std::vector<Merge>& merges, bool whole_words_first);

  // Appends the tokens of `piece` to *ids. Time n log n, memory n, in the bytes of the piece.
  void Encode(std::string_view piece, std::vector<TokenId>* ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Rule {
    uint32_t rank = 0;
    TokenId merged = 0;
  };
  struct Symbols;

  // The rule for a neighbouring pair; null when it is never merged.
  const Rule* Find(TokenId left, TokenId right) const;
  void EncodeShort(std::string_view piece, std::vector<TokenId>* ids) const;
  void EncodeLong(std::string_view piece, std::vector<TokenId>* ids) const;

  Vocabulary vocabulary_;
  absl::flat_hash_map<uint64_t, Rule> rules_;
  bool whole_words_first_;
};

}  // namespace tutti
