// tutti drain: an operator lets a worker go, or takes it back.
#include <memory>
#include <string>

#include "client/command.h"
#include "client/print.h"

namespace tutti::client {
namespace {

constexpr const char* kDrainExamples = R"(
Examples:
  tutti drain w1
  tutti drain w1 --undo

A drained worker stays linked and gets no shard any more, also when it comes back. Where a spare can
take its place its pipeline forms with that one at once, and streams go on with a gap; otherwise it
serves until its last stream has ended.
Exit codes: 0 done, 1 failed (also when no such worker is linked), 2 bad input, 3 not reachable.)";

struct DrainFlags {
  ServiceFlags service;
  std::string worker;
  bool undo = false;
};

int RunDrain(const DrainFlags& flags) {
  auto client = MakeClient(flags.service);
  if (!client.ok()) return Fail(client.status());
  v1::DrainWorkerRequest request;
  request.set_worker_id(flags.worker);
  request.set_undo(flags.undo);
  const auto response =
      (*client)->DrainWorker(request, MakeCallOptions(flags.service, /*cancel=*/nullptr));
  if (!response.ok()) return Fail(response.status());
  const absl::Status written = PrintLine(response->state());
  return written.ok() ? kExitOk : Fail(written);
}

}  // namespace

Command MakeDrainCommand(FlagSet* program) {
  FlagSet* set = program->AddCommand("drain", "Let a worker go before it is stopped");
  auto flags = std::make_shared<DrainFlags>();
  set->Add({
      {.names = "worker", .variable = &flags->worker, .help = "Its name", .required = true},
      {.names = "--undo", .variable = &flags->undo, .help = "Take it back"},
  });
  AddOperatorFlags(set, &flags->service);
  set->AddFooter(kDrainExamples);
  return {set, [flags] { return RunDrain(*flags); }};
}

}  // namespace tutti::client
