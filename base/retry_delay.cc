#include "base/retry_delay.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tutti {
namespace {

constexpr char kPayload[] = "tutti/retry-delay-ms";

}  // namespace

absl::Status WithRetryDelay(absl::Status status, Duration delay) {
  CHECK(!status.ok()) << "a success needs no second try";
  const int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(delay).count();
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(std::max<int64_t>(ms, 1))));
  return status;
}

std::optional<Duration> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms)) return std::nullopt;
  return std::chrono::milliseconds(ms);
}

}  // namespace tutti
