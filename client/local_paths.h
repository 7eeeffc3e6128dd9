// The places where a local cluster finds its programs and keeps its sockets.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti::client {

// The path of a program that lies beside the running one. NOT_FOUND says where it was looked for.
absl::StatusOr<std::string> ProgramBeside(absl::string_view name);

// A new folder that only we can enter, below $XDG_RUNTIME_DIR, $TMPDIR or /tmp. UNAVAILABLE when
// none can be made.
absl::StatusOr<std::string> MakePrivateDir();

}  // namespace tutti::client
