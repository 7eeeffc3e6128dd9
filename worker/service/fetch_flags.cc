#include "worker/service/fetch_flags.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::worker {
namespace {

// The folder where a worker keeps what it fetched unless it is told otherwise; empty: nowhere.
std::string UsualCache(const std::string& worker_id) {
  for (const auto& [variable, below] :
       {std::pair("XDG_CACHE_HOME", ""), std::pair("HOME", "/.cache")}) {
    const char* const folder = std::getenv(variable);
    // The specification has relative paths ignored.
    if (folder == nullptr || folder[0] != '/') continue;
    return absl::StrCat(folder, below, "/tutti/weights/", worker_id);
  }
  return "";
}

}  // namespace

absl::Status ResolveModel(WorkerOptions* worker) {
  if (!worker->model_dir.empty()) {
    if (worker->cache_dir.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--model-cache is for workers without --model, which is given too; leave one out");
  }
  if (worker->cache_dir.empty()) worker->cache_dir = UsualCache(worker->worker_id);
  if (!worker->cache_dir.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--model is not given, and there is no home folder to keep the coordinator's checkpoint in; "
      "give --model DIR, or --model-cache DIR");
}

absl::Status KeepOnStarting() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  if (sigismember(&pending, SIGINT) == 0 && sigismember(&pending, SIGTERM) == 0) {
    return absl::OkStatus();
  }
  return absl::CancelledError("told to stop before it had started");
}

}  // namespace tutti::worker
