// Token ids to text, one sequence at a time, while they are sampled.
#pragma once

#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace tutti::text {

// The text pushed out, joined, is what Python's bytes.decode("utf-8", errors="replace") makes of
// the joined bytes of the tokens, divided in any way: a token may hold half a character. Ids
// that are no tokens (padding rows of an embedding) stand for no text.
//
// Holds at most 3 bytes.  Thread: one at a time.
class Detokenizer {
 public:
  // Whether other text stands before the tokens. Where it does not, the space that some tokenizers
  // put before a text is no part of it; a continuation's first space is.
  enum class From { kContinuation, kBeginning };

  // REQUIRES: `tokenizer` outlives this; null: no token has a text.  `skip_special_tokens`: they
  // stand for no text.
  Detokenizer(const Tokenizer* tokenizer, bool skip_special_tokens, From from = From::kContinuation)
      : tokenizer_(tokenizer),
        skip_special_tokens_(skip_special_tokens),
        drop_space_(from == From::kBeginning && tokenizer != nullptr && tokenizer->AddsSpace()) {}

  // The text that `token` completes: valid UTF-8, often empty, never a part of a character.
  std::string Push(TokenId token);

  // The end of the sequence: bytes that were held back, as U+FFFD. Push may follow as for a new
  // sequence.
  std::string Finish();

 private:
  const Tokenizer* const tokenizer_;
  const bool skip_special_tokens_;
  bool drop_space_;   // until there is text
  std::string held_;  // the beginning of a character
};

}  // namespace tutti::text
