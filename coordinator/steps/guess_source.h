// Where guesses of a sequence's next tokens come from. A guess changes no token: the worker that
// samples computes its row beside that of the last token, and takes it only where it has drawn the
// same (worker/sampling/verification.h). So a source may forget, be wrong, and say different things
// of the same tokens.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace tutti::coordinator {

struct Sequence;  // coordinator/sequence.h

class GuessSource {
 public:
  virtual ~GuessSource() = default;
  // A step is about to ask: what answers may cost is for all of them together.
  virtual void BeginStep() {}
  // Appends at most `most` tokens that may follow those of a sequence that runs, in order. Asked in
  // every step in which it may guess. How many of the last tokens are the same as before the place
  // that they were found at; 0: there is no such place, or that says nothing.  REQUIRES: most > 0
  virtual int32_t Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) = 0;
  // The sequence runs no more; it may come again. One that is not known here is none to forget.
  virtual void Forget(const Sequence& sequence) = 0;
};

}  // namespace tutti::coordinator
