// The order in which the rows of a step are sampled whose sequences have guesses.
//
// A row does not depend on those beside it, and a token is drawn from its row, its position and the
// tokens before it. So the row of a guess is the row that would have come next, if the row before
// has drawn the guess; otherwise it is that of another text and nobody looks at it. The sequence
// goes on with each guess that was right, for its penalties, its grammar and its rows of banned
// tokens; when the step is sampled it has the tokens again that it had before: those that were
// drawn come with a plan, as any others do.
//
// Thread: the executor's.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "proto/peer_messages.h"
#include "worker/batch.h"

namespace tutti::worker {

class Verification {
 public:
  // `sampled` gets an entry for each of a step's rows, in their order.
  // REQUIRES: it is empty; both outlive this
  Verification(std::span<const SampleRow> rows, std::vector<v1::SampledToken>* sampled);
  // Every sequence has the tokens again that it came with.
  ~Verification();
  Verification(const Verification&) = delete;
  Verification& operator=(const Verification&) = delete;

  struct Rows {
    size_t begin = 0, end = 0;
    size_t size() const { return end - begin; }
  };
  // The next of the first `end` rows that can be sampled together: all their sequences stand where
  // these rows are. None: there are no more. Rows that follow from a wrong guess have got their
  // entry (kTokenNotDrawn).  REQUIRES: the rows given out before have got theirs
  Rows Next(size_t end);

 private:
  bool FollowsFromWrong(size_t row) const;
  void GoOn(const SampleRow& row);

  const std::span<const SampleRow> rows_;
  std::vector<v1::SampledToken>* const sampled_;
  std::vector<SequenceState*> gone_on_;  // once for each guess
};

}  // namespace tutti::worker
