#include "base/protocol.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tutti {

absl::Status CheckProtocol(std::string_view them, uint32_t theirs, std::string_view us,
                           uint32_t ours) {
  if (theirs == ours) return absl::OkStatus();
  const std::string other(them), own(us);
  const bool is_older = theirs < ours;
  return absl::FailedPreconditionError(absl::StrCat(
      "protocol version of ", other, " is \"", theirs, "\", of ", own, " \"", ours,
      "\": ", is_older ? other : own, " is of an older build; start ", other, " from the build of ",
      own, is_older ? "" : absl::StrCat(", or update ", own, " too"),
      " (while a cluster moves to another protocol, a second one serves beside it)"));
}

}  // namespace tutti
