// What a pipeline has still to begin: who waits for a place on it, and whose prompts no step has
// been planned for yet. The sums of both are kept as they change, so that dealing out a burst of
// requests over many pipelines walks nobody.
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
  using Turn = decltype(std::declval<Sequence>().turn());
  using Rank = decltype(std::declval<Sequence>().rank());

  Backlog(int32_t block_size, uint32_t planted_bugs)
      : block_size_(block_size), planted_bugs_(planted_bugs) {}

  // ---- those who wait for a place, in the order of their turn

  // REQUIRES: the sequence is not here, and has nothing planned. It gets no tokens until Unwait.
  void Wait(Sequence* sequence);
  // False: it does not wait.
  bool Unwait(Sequence* sequence);
  const std::map<Turn, Sequence*>& waiting() const { return waiting_; }

  // What they would take, each with all its tokens.
  struct Demand {
    int64_t sequences = 0;
    int64_t blocks = 0;
    bool operator==(const Demand&) const = default;
  };
  // Of those of the class, and of the classes that go before it: O(classes that wait).
  Demand DemandUpTo(int32_t priority) const;

  // ---- those who run and are more than one token behind, in the order of their rank

  // REQUIRES: behind() > 1, and it is not here
  void FallBehind(Sequence* sequence);
  // A step is planned for `count` more of its tokens; it leaves once it is not far behind.
  // REQUIRES: it runs; it is here if behind() > 1
  void Plan(Sequence* sequence, int32_t count);
  // False: it is not here.
  bool Forget(Sequence* sequence);
  const std::map<Rank, Sequence*>& behind() const { return behind_; }

  // Tokens of both that no step has been planned for.
  int64_t tokens() const { return tokens_; }

  // Compares the sums with a walk over everybody. Slow.
  bool SumsAreRight() const;

 private:
  // Everything that comes or goes is counted here.
  void CountWaiting(const Sequence& sequence, int64_t sign);
  void CountTokens(int64_t tokens) { tokens_ += tokens; }
  Demand DemandOf(const Sequence& sequence) const;

  const int32_t block_size_;
  const uint32_t planted_bugs_;
  std::map<Turn, Sequence*> waiting_;
  std::map<int32_t, Demand> demand_;  // of those who wait, by class; none is empty
  std::map<Rank, Sequence*> behind_;
  int64_t tokens_ = 0;
};

}  // namespace tutti::coordinator
