#include "base/thread.h"

#include <errno.h>  // program_invocation_short_name

#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "base/last_words.h"

namespace tutti {

absl::StatusOr<std::thread> TryStartThread(std::string_view what, std::function<void()> run) {
  try {
    if (TUTTI_FAIL_POINT("base.no_thread")) {
      throw std::system_error(EAGAIN, std::generic_category());
    }
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no thread can be started for ", std::string(what), " (", error.code().message(),
        "): this process, its user or its container may have no more of them (ulimit -u, "
        "pids.max)"));
  }
}

std::thread StartThread(std::string_view what, std::function<void()> run) {
  absl::StatusOr<std::thread> thread = TryStartThread(what, std::move(run));
  if (thread.ok()) return *std::move(thread);
  SayLastWords(
      absl::StrCat(program_invocation_short_name, ": ", std::string(thread.status().message())));
  std::_Exit(kExitNoThread);
}

}  // namespace tutti
