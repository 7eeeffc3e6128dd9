// The details of an error for clients, beside its code and its words: google.rpc details
// ("grpc-status-details-bin"), and when to come again.
//
// Thread: any; pure functions.
#pragma once

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::door {

// The domain of our ErrorInfo.
inline constexpr char kErrorDomain[] = "tutti";

// Trailing metadata: after how many milliseconds to try again; and the same as gRPC's own retries
// read it, where a negative number says not to.
inline constexpr char kRetryAfterMetadata[] = "retry-after-ms";
inline constexpr char kPushbackMetadata[] = "grpc-retry-pushback-ms";
inline constexpr int64_t kNoRetry = -1;

// The path of the field at fault: that with which the words of an INVALID_ARGUMENT begin, if a
// request of the API has such a field; "prompt" where they are about the prompt; "" where no field
// is named.
std::string FieldAtFault(const absl::Status& status);

// The status as it goes to the client, with its details: words of at most kErrorTextBytesMax bytes
// of UTF-8, ErrorInfo, BadRequest with the field at fault, and RetryInfo with `delay`.
grpc::Status ToGrpc(const absl::Status& status, std::optional<Duration> delay);
// A status with the delay of the status.
grpc::Status ToGrpc(const absl::Status& status);

// The delay of the status, longer by up to kRetryJitter of it. `draw`: uniform in [0, 1).
std::optional<Duration> JitteredDelay(const absl::Status& status, double draw);

// The value of kPushbackMetadata: the delay; kNoRetry where the same request would fare no better;
// nothing where gRPC's own pause is as good as any.
std::optional<int64_t> PushbackMs(const absl::Status& status, std::optional<Duration> delay);

}  // namespace tutti::door
