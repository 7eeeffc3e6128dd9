#include "coordinator/requests/not_serving.h"

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"
#include "coordinator/limits.h"
#include "coordinator/requests/place_pace.h"

namespace tutti::coordinator {

absl::Status NotServing(const std::string& why, bool leaving) {
  const std::string text = absl::StrCat("not serving: ", why);
  if (!leaving) return absl::UnavailableError(text);
  return WithRetryDelay(
      absl::UnavailableError(absl::StrCat(text, "; retry after ", DelayText(kRetryDelayUnknown))),
      kRetryDelayUnknown);
}

absl::Status ShuttingDown() {
  return WithRetryDelay(
      absl::UnavailableError(absl::StrCat("the service is shutting down; send the request to "
                                          "another, or here again after ",
                                          DelayText(kRetryDelayUnknown))),
      kRetryDelayUnknown);
}

}  // namespace tutti::coordinator
