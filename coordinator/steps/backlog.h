// The work that a pipeline has still to begin: sequences that wait for a place on it, and running
// sequences with tokens that no step has been planned for. The sums of both are kept as they
// change: binding one request of a burst to one of many pipelines walks over no sequence.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "coordinator/sequence.h"

namespace tutti::coordinator {

class Backlog {
 public:
  using AdmissionKey = decltype(std::declval<Sequence>().admission_key());
  using PreemptionKey = decltype(std::declval<Sequence>().preemption_key());

  // ---- sequences that wait for a place, by admission_key()

  // REQUIRES: the sequence is not here, and has nothing planned. It gets no tokens until Unwait.
  void Wait(Sequence* sequence);
  // False: it does not wait.
  bool Unwait(Sequence* sequence);
  const std::map<AdmissionKey, Sequence*>& waiting() const { return waiting_; }

  // ---- running sequences that are more than one token behind, by preemption_key()

  // REQUIRES: behind() > 1, and it is not here
  void FallBehind(Sequence* sequence);
  // A step is planned for `count` more of its tokens: stay.planned grows. The sequence leaves this
  // set once it is not more than one token behind.
  // REQUIRES: it runs; it is here if behind() > 1
  void Advance(Sequence* sequence, int32_t count);
  // False: it is not here.
  bool Forget(Sequence* sequence);
  const std::map<PreemptionKey, Sequence*>& behind() const { return behind_; }

  // Another number after every change of those that wait.
  uint64_t version() const { return version_; }

  // Tokens of both that no step has been planned for.
  int64_t tokens() const { return tokens_; }

  // Compares the sums with a walk over all sequences. Slow.
  bool SumsAreRight() const;

 private:
  // Everything that comes or goes is counted here.
  void CountTokens(int64_t tokens) { tokens_ += tokens; }

  std::map<AdmissionKey, Sequence*> waiting_;
  std::map<PreemptionKey, Sequence*> behind_;
  int64_t tokens_ = 0;
  uint64_t version_ = 0;
};

}  // namespace tutti::coordinator
