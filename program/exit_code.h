// The exit codes of our daemons, which their --help names.
#pragma once

#include "base/status.h"

namespace tutti {

inline constexpr int kExitCannotStart = 1;
// Options, files or a model that cannot be right: to start again would change nothing.
inline constexpr int kExitCannotBeRight = 2;
// The exit code of a worker whose GPU no call reaches any more. To start again may help.
inline constexpr int kExitDeviceLost = 3;

// The exit code of a daemon that ends because it could not start.
inline int ExitCodeOfStart(const absl::Status& why) {
  switch (why.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kOutOfRange:
      return kExitCannotBeRight;
    default:
      return kExitCannotStart;
  }
}

}  // namespace tutti
