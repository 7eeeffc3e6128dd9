// The `tutti` command.
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "base/build_info.h"
#include "client/command.h"
#include "client/config_file.h"
#include "client/format.h"

namespace {

constexpr const char* kFooter = R"(
Examples:
  tutti up --model models/demo --workers 2
  tutti generate --prompt "12+30=" --temperature 0
  tutti status
  tutti plan --model Qwen3-32B --devices 4x24GiB

A flag may also be set by its environment variable (see `tutti COMMAND --help`) or in a TOML file
given by --config, in the section of its command:
  [generate]
  temperature = 0.7
The command line wins over the environment, the environment over the file.)";

}  // namespace

int main(int argc, char** argv) {
  // A reader that leaves (`tutti generate | head`) is an error of one write, not the end of the
  // process.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Tutti serves one language model from many workers.", "tutti");
  app.set_version_flag("--version", std::string(tutti::BuildStamp()));
  app.require_subcommand(1);
  app.set_config("--config", "", "Read flags from a TOML file")->envname("TUTTI_CONFIG");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.config_formatter(tutti::client::MakeConfigReader(&app));
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  app.footer(kFooter);
  const std::vector<tutti::client::Command> commands = {
      tutti::client::MakeUpCommand(&app),    tutti::client::MakeGenerateCommand(&app),
      tutti::client::MakeChatCommand(&app),  tutti::client::MakeStatusCommand(&app),
      tutti::client::MakePlanCommand(&app),  tutti::client::MakeTokenizeCommand(&app),
      tutti::client::MakeBenchCommand(&app), tutti::client::MakeLookupCommand(&app),
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    // Without a known subcommand an unknown one is left over; naming it says more than "required".
    const std::vector<std::string> left = app.remaining();
    if (left.empty()) {
      app.exit(error);
      return tutti::client::kExitUsage;
    }
    const std::string name = tutti::client::OneLine(left.front());
    std::fprintf(stderr, "tutti: there is no subcommand \"%s\"; see tutti --help\n", name.c_str());
    return tutti::client::kExitUsage;
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too, with code 0.
    return app.exit(error) == 0 ? tutti::client::kExitOk : tutti::client::kExitUsage;
  }
  for (const tutti::client::Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return tutti::client::kExitUsage;
}
