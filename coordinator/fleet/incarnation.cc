#include "coordinator/fleet/incarnation.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"

namespace tutti::coordinator {

absl::Status Incarnation::Meet(uint32_t obeyed) {
  // A guess may equal that of a coordinator that ended within the same second.
  if (judged_ ? obeyed <= number_ : obeyed < number_ || obeyed == 0) return absl::OkStatus();
  if (obeyed == std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the worker says that it has obeyed coordinator number ", obeyed,
                     ", above which there is none; restart the worker"));
  }
  if (judged_) {
    if (TUTTI_FAIL_POINT("coordinator.stale_incarnation")) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "the worker has obeyed coordinator number ", obeyed, " and this one is number ", number_,
        ": another coordinator leads or has led since. If the numbers began anew (the lock file or "
        "etcd's keys were removed), restart the worker"));
  }
  number_ = obeyed + 1;
  return absl::OkStatus();
}

}  // namespace tutti::coordinator
