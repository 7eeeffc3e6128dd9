// Starting threads. The system may refuse one more: a process, its user and its control group have
// so many (ulimit -u, pids.max). std::thread throws then, and a process that nobody catches it for
// aborts without a word.
//
// Thread: any.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "base/status.h"

namespace tutti {

// For threads that the process can do without, or without now. RESOURCE_EXHAUSTED: none can be
// started. `what` says what it is, in that message: "the resolver of names".
absl::StatusOr<std::thread> TryStartThread(std::string_view what, std::function<void()> run);

// For threads that the process needs: where none can be started it says so on stderr, and ends with
// kExitNoThread.
std::thread StartThread(std::string_view what, std::function<void()> run);

// Has the calling thread run only where others of this machine leave time: so many steps of `nice`
// (1 to 19) down, for good. Where the system has none of it, nothing changes.
void LowerPriority(int steps);

// Whether `count` threads can be started, all at once: for libraries that start theirs without
// telling what becomes of it. RESOURCE_EXHAUSTED as TryStartThread.
absl::Status CheckRoomForThreads(std::string_view what, int count);

// That of a daemon that cannot start.
inline constexpr int kExitNoThread = 1;

}  // namespace tutti
