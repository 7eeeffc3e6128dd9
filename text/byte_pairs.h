// Byte pair encoding: merges neighbouring tokens, the pair that was learned first before all
// others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "text/vocabulary.h"

namespace tutti::text {

// Immutable.  Thread: any.
class BytePairs {
 public:
  struct Merge {
    TokenId left = 0;
    TokenId right = 0;
    TokenId merged = 0;
    uint32_t rank = 0;  // the lowest is merged first; of equal ones the leftmost pair
  };

  struct Rules {
    // Where a pair is given twice the later one counts, as in HuggingFace tokenizers.
    std::vector<Merge> merges;
    // A piece is merged up from its characters rather than its bytes; those without a token become
    // the tokens of their bytes.
    bool from_characters = false;
    // Characters without a token that nevertheless take part in merges: number i has the id
    // vocabulary.size() + i in `merges`.
    std::vector<std::string> tokenless;
    // A piece that is itself a token is not merged up ("ignore_merges", and tiktoken always).
    bool whole_words_first = false;
  };

  // REQUIRES: every id in `rules` is a token of `vocabulary` or stands for one of `tokenless`
  BytePairs(Vocabulary vocabulary, Rules rules);

  // Appends the tokens of `piece` to *ids. Time n log n, memory n, in the bytes of the piece.
  // REQUIRES: valid UTF-8 when merging from characters
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
  // Calls symbol(id) for each symbol that `piece` is merged up from: at most one for each byte.
  void ForEachSymbol(std::string_view piece, absl::FunctionRef<void(TokenId)> symbol) const;
  void Emit(TokenId symbol, std::vector<TokenId>* ids) const;
  void EncodeShort(std::string_view piece, std::vector<TokenId>* ids) const;
  void EncodeLong(std::string_view piece, std::vector<TokenId>* ids) const;

  Vocabulary vocabulary_;
  absl::flat_hash_map<uint64_t, Rule> rules_;
  bool from_characters_;
  bool whole_words_first_;
  std::vector<std::string> tokenless_;
  absl::flat_hash_map<std::string, TokenId> tokenless_ids_;
};

}  // namespace tutti::text
