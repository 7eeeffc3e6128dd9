// One POST over plain HTTP, for a collector beside us.
//
// Thread: one that may wait.
#pragma once

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

}  // namespace tutti::metrics
