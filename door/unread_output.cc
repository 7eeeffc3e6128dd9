#include "door/unread_output.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/limits.h"

namespace tutti::door {

bool UnreadOutput::CountPieces(int64_t bytes) {
  if (bytes <= charge_.bytes() + kUnreadUncountedBytes) return true;
  return charge_.bytes() > 0 ? charge_.Resize(charge_.bytes() + kUnreadStepBytes)
                             : BeginWhole(kUnreadStepBytes);
}

bool UnreadOutput::Cover(int64_t bytes) {
  return charge_.bytes() == 0 ? BeginWhole(bytes) : CountWhole(bytes);
}

bool UnreadOutput::BeginWhole(int64_t bytes) {
  charge_ = {};
  std::optional<ByteBudget::Charge> charge = budget_->Take(client_, bytes);
  if (charge) charge_ = *std::move(charge);
  return charge.has_value();
}

bool UnreadOutput::CountWhole(int64_t bytes) {
  if (charge_.bytes() == 0 || bytes <= charge_.bytes()) return true;
  return charge_.Resize(std::max(bytes, charge_.bytes() + kUnreadStepBytes)) ||
         charge_.Resize(bytes);
}

void UnreadOutput::Clear() {
  if (charge_.bytes() > 0) charge_ = {};
}

absl::Status TooMuchUnread(int64_t bytes, int64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the client left ", bytes, " bytes of output unread, more than it may now (at most ", most,
      " for each output)"));
}

}  // namespace tutti::door
