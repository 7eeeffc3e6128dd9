// The `tutti` command.
#include <csignal>
#include <optional>
#include <vector>

#include "base/build_info.h"
#include "client/command.h"
#include "program/flags.h"
#include "program/processor.h"

namespace tutti::client {
namespace {

constexpr const char* kFooter = R"(
Examples:
  tutti up --model models/demo --workers 2
  tutti chat --message "What is 12 + 30?" --temperature 0
  tutti status
  tutti plan --model Qwen3-32B --devices 4x24GiB

A flag may also be set by its environment variable (see `tutti COMMAND --help`) or in a TOML file
given by --config, in the section of its command:
  [generate]
  temperature = 0.7
The command line wins over the environment, the environment over the file.

Exit codes, the same for every command: 0 done, 1 failed, 2 flags or input that cannot be right,
3 no service there or it does not serve now, 4 --timeout passed, 130 interrupted.)";

int Main(int argc, char** argv) {
  // A reader that leaves (`tutti generate | head`) fails one write instead of ending the process.
  std::signal(SIGPIPE, SIG_IGN);
  if (const absl::Status fit = CheckProcessor(); !fit.ok()) return Fail(fit);
  FlagSet program("tutti", "Tutti serves one language model from many workers.");
  program.AddVersion(BuildStamp());
  program.ReadEnvironment(kEnvironmentPrefix);
  program.AddFile("Read flags from a TOML file");
  program.AddFooter(kFooter);
  const std::vector<Command> commands = {
      MakeUpCommand(&program),         MakeGenerateCommand(&program), MakeChatCommand(&program),
      MakeStatusCommand(&program),     MakePlanCommand(&program),     MakeTokenizeCommand(&program),
      MakeDetokenizeCommand(&program), MakeBenchCommand(&program),    MakeLookupCommand(&program),
      MakeDrainCommand(&program),      MakeCertsCommand(&program),    MakeQuantizeCommand(&program),
  };
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  for (const Command& command : commands) {
    if (command.flags->chosen()) return command.run();
  }
  return kExitUsage;
}

}  // namespace
}  // namespace tutti::client

int main(int argc, char** argv) { return tutti::client::Main(argc, argv); }
