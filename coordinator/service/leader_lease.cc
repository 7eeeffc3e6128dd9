#include "coordinator/service/leader_lease.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tutti::coordinator {

absl::StatusOr<uint32_t> NextIncarnation(uint32_t last, int64_t now) {
  // The largest is kept free: a worker that has obeyed it could obey nobody else.
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max() - 1;
  const int64_t next = std::max(int64_t{last} + 1, std::min(now, kMost));
  if (next <= kMost) return static_cast<uint32_t>(next);
  return absl::OutOfRangeError(
      absl::StrCat("the last leader's number is ", last,
                   ", above which there is none; remove where it is kept"));
}

}  // namespace tutti::coordinator
