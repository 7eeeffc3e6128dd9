#include "client/device_report.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "client/child_process.h"
#include "client/format.h"
#include "client/limits.h"
#include "client/local_paths.h"

namespace tutti::client {

absl::StatusOr<MachineDevices> AskForDevices() {
  TUTTI_ASSIGN_OR_RETURN(const std::string worker, ProgramBeside("tutti-worker"));
  TUTTI_ASSIGN_OR_RETURN(const std::string folder, MakePrivateDir());
  const std::string file = folder + "/devices";
  const auto answer = [&]() -> absl::StatusOr<std::string> {
    ChildSpec spec = {.arguments = {worker, "--list-devices"}, .log_file = file};
    TUTTI_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(spec));
    const SystemClock clock;
    const Instant deadline = clock.Now() + std::chrono::milliseconds(kListDevicesPatienceMs);
    std::optional<int> ended;
    while (!(ended = child.TryWait()) && clock.Now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream said(file, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(said), {});
    if (!ended) {
      ChildProcess::Abandon(std::move(child));
      return absl::UnavailableError(absl::StrCat(
          "the NVIDIA driver has not listed its GPUs within ", kListDevicesPatienceMs / 1000,
          " s (does nvidia-smi answer?); --device cpu serves without them"));
    }
    if (ExitCodeOfWaitStatus(*ended) != 0) {
      return absl::UnavailableError(absl::StrCat(
          "tutti-worker --list-devices ended with ", DescribeWaitStatus(*ended),
          text.empty() ? "" : ": ", OneLine(text), "; --device cpu serves without GPUs"));
    }
    return text;
  }();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!answer.ok()) return answer.status();
  // Libraries may have said something before.
  const size_t line = absl::StartsWith(*answer, "{") ? 0 : answer->rfind("\n{") + 1;
  return ParseDeviceReport(absl::string_view(*answer).substr(line));
}

}  // namespace tutti::client
