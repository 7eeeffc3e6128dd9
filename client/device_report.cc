#include "client/device_report.h"

#include <chrono>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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
    TUTTI_ASSIGN_OR_RETURN(const ShortRun run,
                           RunShortly(spec, std::chrono::milliseconds(kListDevicesPatienceMs)));
    if (!run.wait_status.has_value()) {
      return absl::UnavailableError(absl::StrCat(
          "the NVIDIA driver has not listed its GPUs within ", kListDevicesPatienceMs / 1000,
          " s (does nvidia-smi answer?); --device cpu serves without them"));
    }
    if (ExitCodeOfWaitStatus(*run.wait_status) != 0) {
      return absl::UnavailableError(absl::StrCat(
          "tutti-worker --list-devices ended with ", DescribeWaitStatus(*run.wait_status),
          run.said.empty() ? "" : ": ", OneLine(run.said), "; --device cpu serves without GPUs"));
    }
    return run.said;
  }();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!answer.ok()) return answer.status();
  // Libraries may have said something before.
  const size_t line = absl::StartsWith(*answer, "{") ? 0 : answer->rfind("\n{") + 1;
  return ParseDeviceReport(absl::string_view(*answer).substr(line));
}

}  // namespace tutti::client
