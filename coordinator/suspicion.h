// What speaks for a sequence's having brought workers down: the losses during which a step with it
// was under way, of rows that have not been computed since.
//
// A loss accuses it where some of its rows were under way, and of these rows only: whoever dies of
// a request dies of computing some row of it, and dies there again. So rows that are computed
// without a loss acquit themselves, and a loss that came over other rows than those before it is
// another matter. An accusation is open until it is known how the worker was lost
// (docs/decisions/0077-guilt.md).
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::coordinator {

class Suspicion {
 public:
  struct Accusation {
    uint64_t loss = 0;  // its number
    // The rows that were under way.
    int32_t first = 0;
    int32_t end = 0;
    bool alone = false;   // no step under way computed anything else
    bool proven = false;  // the worker has failed of itself, or its process has died
  };
  enum class Verdict {
    kFree,     // one loss is most often an accident
    kSuspect,  // it is to be computed alone
    kOpen,     // it would be guilty, if workers have died that have not come back yet
    kGuilty,
  };

  // REQUIRES: first < end
  void Accuse(const Accusation& accusation);
  // How the worker of a loss was lost: by its death, or it lives.
  void Prove(uint64_t loss);
  void Acquit(uint64_t loss);
  // Its tokens before `end` have been computed, and no worker was lost.
  void OnComputed(int32_t end);
  // It got a token. What it is still accused of are rows of guesses that were under way behind
  // that token's: they are suspected until they are computed too.
  void OnToken();

  bool empty() const { return accusations_.empty(); }
  // Losses that accuse it of the same rows.
  int32_t losses() const { return static_cast<int32_t>(accusations_.size()); }
  Verdict verdict() const;
  // Where it is computed alone, of its rows from `first` on so many at most are in one step, that
  // the loss of a worker in that step says more: those before the suspected rows, then a part of
  // these.
  int32_t RowsInTrial(int32_t first) const;

 private:
  // The rows of which all accuse it.
  int32_t first() const;
  int32_t end() const;

  std::vector<Accusation> accusations_;  // the last one last
  int32_t deaths_before_ = 0;            // proven, over other rows
};

}  // namespace tutti::coordinator
