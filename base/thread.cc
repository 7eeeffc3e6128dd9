#include "base/thread.h"

#include <errno.h>  // program_invocation_short_name
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

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

void LowerPriority(int steps) {
  const auto thread = static_cast<id_t>(gettid());
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, thread);
  if (errno == 0) setpriority(PRIO_PROCESS, thread, now + steps);
}

absl::Status CheckRoomForThreads(std::string_view what, int count) {
  std::promise<void> all;
  const std::shared_future<void> started = all.get_future().share();
  std::vector<std::thread> threads;
  absl::Status status;
  while (status.ok() && static_cast<int>(threads.size()) < count) {
    absl::StatusOr<std::thread> thread = TryStartThread(what, [started] { started.wait(); });
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  all.set_value();
  for (std::thread& thread : threads) thread.join();
  return status;
}

std::thread StartThread(std::string_view what, std::function<void()> run) {
  absl::StatusOr<std::thread> thread = TryStartThread(what, std::move(run));
  if (thread.ok()) return *std::move(thread);
  SayLastWords(
      absl::StrCat(program_invocation_short_name, ": ", std::string(thread.status().message())));
  std::_Exit(kExitNoThread);
}

}  // namespace tutti
