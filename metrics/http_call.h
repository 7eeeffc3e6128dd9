// One call over plain HTTP, of a collector or of another process of ours.
//
// Thread: one that may wait.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::metrics {

struct HttpUrl {
  std::string host;
  std::string port = "80";
  std::string path;  // empty, or begins with a slash
};

// INVALID_ARGUMENT: it is no http://HOST[:PORT][/PATH].
absl::StatusOr<HttpUrl> ParseHttpUrl(std::string_view text);

// Sends `body`, and waits for a status of 2xx, both within `time` (but for looking the name up).
absl::Status PostJson(const HttpUrl& url, std::string_view body, Duration time);

// The body of the answer to a GET, of at most `bytes_max`, whole within `time`. UNAVAILABLE for any
// other status than 200.
absl::StatusOr<std::string> GetText(const HttpUrl& url, size_t bytes_max, Duration time);

}  // namespace tutti::metrics
