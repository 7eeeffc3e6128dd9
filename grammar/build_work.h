// The work of making one grammar, which is counted and has an end.
//
// A unit is what takes some 20 ns: a few instructions of an expression, sixteen bytes of a name, an
// eighth of a property. Whatever loops over something of a source counts what it looks at, its
// bytes too; grammar_bench --hostile measures how long a unit takes.
//
// Thread: one.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "grammar/limits.h"

namespace tutti::grammar {

class BuildWork {
 public:
  // `given`: units, at most kBuildWorkMax.
  explicit BuildWork(int64_t given = kBuildWorkMax) : given_(given) {}

  // For what is done already, or ends soon; Spend tells of it the next time.
  void Add(int64_t units) { spent_ += units; }
  // ResourceExhausted beyond what was given, now and from then on.
  absl::Status Spend(int64_t units) {
    spent_ += units;
    if (spent_ <= given_) return absl::OkStatus();
    return absl::ResourceExhaustedError("takes too much work to read");
  }
  int64_t spent() const { return spent_; }

 private:
  const int64_t given_;
  int64_t spent_ = 0;
};

}  // namespace tutti::grammar
