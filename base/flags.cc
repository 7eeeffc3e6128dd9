#include "base/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/flag_checks.h"
#include "base/flag_errors.h"
#include "base/flag_file.h"

namespace tutti {
namespace {

// "TUTTI_MAX_MEMORY" of "-m,--max-memory".
std::string VariableOf(const std::string& prefix, const CLI::Option& option) {
  if (prefix.empty() || option.get_lnames().empty()) return "";
  return prefix + absl::AsciiStrToUpper(absl::StrReplaceAll(option.get_lnames()[0], {{"-", "_"}}));
}

// The command that was given, or the program.
const CLI::App& GivenCommand(const CLI::App& program) {
  const std::vector<CLI::App*> given = program.get_subcommands();
  return given.empty() ? program : GivenCommand(*given.front());
}

std::string PathOf(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : PathOf(*parent) + " " + command.get_name();
}

bool IsOnLine(const CLI::Option& option, const std::vector<std::string>& line) {
  return std::any_of(line.begin(), line.end(), [&](const std::string& argument) {
    return option.check_name(argument.substr(0, argument.find('=')));
  });
}

bool IsUnsigned(const FlagVariable& variable) {
  return std::holds_alternative<uint32_t*>(variable) ||
         std::holds_alternative<uint64_t*>(variable) ||
         std::holds_alternative<std::optional<uint32_t>*>(variable) ||
         std::holds_alternative<std::optional<uint64_t>*>(variable);
}

CLI::Option* AddOption(const Flag& flag, CLI::App* app) {
  const std::string names(flag.names);
  const std::string help(flag.help);
  return std::visit(
      [&](auto variable) -> CLI::Option* {
        using Variable = decltype(variable);
        if constexpr (std::is_same_v<Variable, std::monostate>) {
          return app->add_option(names, help);
        } else if constexpr (std::is_same_v<Variable, bool*>) {
          return app->add_flag(names, *variable, help);
        } else {
          return app->add_option(names, *variable, help);
        }
      },
      flag.variable);
}

}  // namespace

FlagSet::FlagSet(absl::string_view program, absl::string_view description)
    : program_(std::make_unique<CLI::App>(std::string(description), std::string(program))),
      app_(program_.get()) {}

FlagSet::FlagSet(CLI::App* command, std::string prefix)
    : app_(command), prefix_(std::move(prefix)) {}

FlagSet::~FlagSet() = default;

void FlagSet::AddVersion(std::string_view text) {
  app_->set_version_flag("--version", std::string(text));
}

void FlagSet::AddReport(absl::string_view name, absl::string_view help,
                        std::function<std::string()> text) {
  const auto print = [text = std::move(text)] { throw CLI::CallForVersion(text(), 0); };
  app_->add_flag_callback(std::string(name), print, std::string(help))->configurable(false);
}

void FlagSet::AddFile(absl::string_view help) {
  CLI::Option* const option = app_->set_config("--config", "", std::string(help));
  if (!prefix_.empty()) option->envname(VariableOf(prefix_, *option));
  app_->allow_config_extras(CLI::config_extras_mode::error);
  const auto file = std::make_shared<FlagFile>(app_);
  app_->config_formatter(file);
  file_ = file;
}

void FlagSet::AddFooter(absl::string_view text) { app_->footer(std::string(text)); }

void FlagSet::Add(std::initializer_list<Flag> flags, absl::string_view group) {
  for (const Flag& flag : flags) AddOne(flag, group);
}

void FlagSet::AddOne(const Flag& flag, absl::string_view group) {
  CLI::Option* option = AddOption(flag, app_);
  if (!group.empty()) option->group(std::string(group));
  option->envname(flag.environment.empty() ? VariableOf(prefix_, *option)
                                           : std::string(flag.environment));
  if (flag.list == FlagList::kCommas) option->delimiter(',');
  if (flag.list == FlagList::kRepeated) option->take_all()->allow_extra_args(false);
  for (const absl::string_view other : flag.excludes) {
    option->excludes(app_->get_option(std::string(other)));
  }
  AddFlagCheck(flag.check, option);
  if (IsUnsigned(flag.variable)) RefuseSign(option);
  if (flag.required) option->required();
  if (flag.show_default) option->capture_default_str();
  if (!flag.default_text.empty()) option->default_str(std::string(flag.default_text));
}

FlagSet* FlagSet::AddCommand(absl::string_view name, absl::string_view description) {
  app_->require_subcommand(1);
  CLI::App* command = app_->add_subcommand(std::string(name), std::string(description));
  commands_.push_back(std::unique_ptr<FlagSet>(new FlagSet(command, prefix_)));
  return commands_.back().get();
}

std::string FlagSet::Explain(const CLI::ParseError& error,
                             const std::vector<std::string>& line) const {
  const CLI::App& command = GivenCommand(*app_);
  // What is required may be there under another name.
  const std::vector<std::string> left = app_->remaining(/*recurse=*/true);
  if (!left.empty()) return ExplainUnknown(command, left.front());
  const CLI::Option* const option = OptionOf(command, error);
  const std::string text = ExplainError(command, error, option);
  if (option == nullptr || IsOnLine(*option, line)) return text;
  if (IsInEnvironment(*option)) {
    return absl::StrCat(text, " (from the environment's ", option->get_envname(), ")");
  }
  const std::string place = file_ == nullptr ? "" : file_->PlaceOf("--" + option->get_lnames()[0]);
  return place.empty() ? text : absl::StrCat(text, " (from ", place, ")");
}

std::optional<int> FlagSet::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help) {  // of --help and --version
    return app_->exit(help);
  } catch (const CLI::ParseError& error) {
    const std::string path = PathOf(GivenCommand(*app_));
    const std::string why = Explain(error, {argv + 1, argv + argc});
    std::fprintf(stderr, "%s: %s%s %s --help\n", path.c_str(), why.c_str(),
                 why.back() == '?' ? " See" : "; see", path.c_str());
    return kExitUsageError;
  }
  return std::nullopt;
}

absl::Status FlagSet::ParseArguments(std::vector<std::string> arguments) {
  const std::vector<std::string> line = arguments;
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 wants of a vector
  try {
    app_->parse(arguments);
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(Explain(error, line));
  }
  return absl::OkStatus();
}

bool FlagSet::chosen() const { return app_->parsed(); }

bool FlagSet::Given(absl::string_view name) const { return app_->count(std::string(name)) > 0; }

std::string FlagSet::Text(absl::string_view name) const {
  return app_->get_option(std::string(name))->results().front();
}

}  // namespace tutti
