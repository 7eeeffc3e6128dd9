// tutti status: pipelines, workers, memory and counters of a running service.
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/command.h"
#include "client/print.h"
#include "client/status_view.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

constexpr const char* kStatusExamples = R"(
Examples:
  tutti status
  tutti status --watch
  tutti status --json | jq '.pipelines[0].stages[].activation_bytes_per_token'

--json prints tutti.v1.GetStatusResponse; 64-bit integers are strings, as protobuf's JSON has it.
Exit codes: 0 serving, 1 failed, 2 bad flags, 3 not reachable or not serving (the status is printed
then too).)";

struct StatusFlags {
  ServiceFlags service;
  bool json = false;
  bool watch = false;
  double interval_s = 1;
};

// A status call answers from memory; without --timeout ten seconds mean that the service hangs.
constexpr double kDefaultTimeoutS = 10;

// Between the two looks that tell how fast tokens come: some come in it, and nobody minds it.
constexpr auto kSecondLook = std::chrono::milliseconds(500);

// `before`: the look before this one, which takes its place.
int ShowOnce(Client* client, const StatusFlags& flags,
             std::optional<v1::GetStatusResponse>* before) {
  const auto look = [&] {
    return client->GetStatus(MakeCallOptions(flags.service, /*cancel=*/nullptr));
  };
  auto status = look();
  if (status.ok() && !flags.json && !before->has_value() && RunningIn(*status) > 0) {
    *before = *status;
    std::this_thread::sleep_for(kSecondLook);
    status = look();
  }
  if (!status.ok()) return Fail(status.status());
  const auto pace =
      before->has_value() ? TokensPerSecond(**before, *status) : std::optional<double>();
  std::string out = flags.json ? ToJson(*status, !flags.watch)
                               : RenderStatus(*status, Style(STDOUT_FILENO), pace);
  *before = *status;
  while (!out.empty() && out.back() == '\n') out.pop_back();
  // One screen, redrawn from its upper left corner.
  if (flags.watch && !flags.json && IsTerminal(STDOUT_FILENO)) out = "\x1b[H\x1b[2J" + out;
  const absl::Status written = PrintLine(out);
  if (!written.ok()) return Fail(written);
  return status->serving() ? kExitOk : kExitUnavailable;
}

int RunStatus(StatusFlags flags) {
  if (flags.service.timeout_s == 0) flags.service.timeout_s = kDefaultTimeoutS;
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  std::optional<v1::GetStatusResponse> before;
  while (true) {
    const int code = ShowOnce(client->get(), flags, &before);
    if (!flags.watch || (code != kExitOk && code != kExitUnavailable)) return code;
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval_s));
  }
}

}  // namespace

Command MakeStatusCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("status", "Show pipelines, workers, memory and counters");
  auto flags = std::make_shared<StatusFlags>();
  set->Add({
      {.names = "--json", .variable = &flags->json, .help = "The status as JSON"},
      {.names = "-w,--watch", .variable = &flags->watch, .help = "Again and again, until Ctrl-C"},
      {.names = "--interval",
       .variable = &flags->interval_s,
       .help = "Seconds between two looks with --watch",
       .check = NumberIn(0.1, 3600),
       .show_default = true},
  });
  AddOperatorFlags(set, &flags->service);
  set->AddFooter(kStatusExamples);
  return {set, [flags] { return RunStatus(*flags); }};
}

}  // namespace tutti::client
