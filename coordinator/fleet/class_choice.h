// The numerics class that pipelines form in: the best of those that all workers can compute. A pure
// function of the workers that have joined, so that the order in which they came decides nothing
// (docs/decisions/0066).
#pragma once

#include <string>
#include <vector>

namespace tutti::coordinator {

// A class that a worker can compute in.
struct ClassOffer {
  std::string numerics_class;
  double flops_per_second = 0;  // 0: not known
  bool inexact = false;         // never chosen: an operator names it (docs/decisions/0072)
};

struct ClassCandidate {
  std::string worker_id;
  std::vector<ClassOffer> offers;  // its best first; at least one
  std::string last;                // that it was last told to compute in; empty: none yet
};

struct ClassChoice {
  std::string numerics_class;  // empty: there are no workers, or none in an exact class
  // The reason for people: "the quickest of those that all 3 workers can compute".
  std::string why;
  // "w0, w1 would be about 1.6 times as quick at prompts in cpu-bf16dot, which w3 cannot compute".
  std::string cost;
  // Some worker has more than this class to offer, or cannot compute it.
  bool was_open = false;
};

// The class that most workers computed in last, if any did, because answers may have been begun in
// it; else the one that most can compute. Of several `kept`; of those that in which they are
// clearly quickest together, where all speeds are known; else the one that most of them name first;
// then the first by name.
//
// A class that some worker calls inexact is never chosen; where there is no other, the choice has
// no class and says why.
//
// `workers`: in an order that does not depend on when they came. `kept`: empty: none.
ClassChoice ChooseClass(const std::vector<ClassCandidate>& workers, const std::string& kept);

// ClassChoice::cost of a class that serves, for the workers that are there now; and, where they
// would choose another now, because whoever could not compute it has gone, which one and what to
// do.
std::string CostNow(std::vector<ClassCandidate> workers, const std::string& serving);

// Why a class that is not exact does not serve, and what to do.
std::string InexactText(const std::string& numerics_class);
// Why a class serves that the operator has named.
std::string OperatorsWord(bool inexact);

// The advice to an operator about a worker that cannot compute `serving`, beside `others` that
// serve in it: "start the coordinator with --numerics-class cpu-f32, which all can compute".
std::string AdviceFor(const ClassCandidate& worker, const std::vector<ClassCandidate>& others,
                      const std::string& serving);

}  // namespace tutti::coordinator
