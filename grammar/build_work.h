// The work of making one grammar, which is counted and has an end.
//
// Thread: one.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "grammar/limits.h"

namespace tutti::grammar {

class BuildWork {
 public:
  // ResourceExhausted beyond kBuildWorkMax, now and from then on.
  absl::Status Spend(int64_t units) {
    spent_ += units;
    if (spent_ <= kBuildWorkMax) return absl::OkStatus();
    return absl::ResourceExhaustedError("takes too much work to read");
  }
  int64_t spent() const { return spent_; }

 private:
  int64_t spent_ = 0;
};

}  // namespace tutti::grammar
