#include "program/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/byte_size.h"
#include "program/flag_checks.h"
#include "program/flag_errors.h"
#include "program/flag_file.h"
#include "program/flag_sources.h"
#include "program/limits.h"

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

bool IsUnsigned(const FlagVariable& variable) {
  return std::holds_alternative<uint32_t*>(variable) ||
         std::holds_alternative<uint64_t*>(variable) ||
         std::holds_alternative<std::optional<uint32_t>*>(variable) ||
         std::holds_alternative<std::optional<uint64_t>*>(variable);
}

// A variable that holds something else than the text says.
template <typename Given>
CLI::Option* AddRead(const Flag& flag, CLI::App* app, std::function<void(const Given&)> read,
                     std::function<std::string()> usual) {
  return app->add_option_function(std::string(flag.names), read, std::string(flag.help))
      ->default_function(usual);
}

CLI::Option* AddDuration(const Flag& flag, Duration* variable, CLI::App* app) {
  if (flag.check.kind == FlagCheck::Kind::kMilliseconds) {
    return AddRead<int64_t>(
        flag, app,
        [variable](const int64_t& given) { *variable = std::chrono::milliseconds(given); },
        [variable] { return absl::StrCat(Milliseconds(*variable)); });
  }
  return AddRead<double>(
      flag, app,
      [variable](const double& given) {
        const std::chrono::duration<double> seconds(std::min(given, Seconds(kLongestFlag)));
        *variable = std::chrono::duration_cast<Duration>(seconds);
      },
      [variable] { return absl::StrCat(Seconds(*variable)); });
}

CLI::Option* AddByteCount(const Flag& flag, int64_t* variable, CLI::App* app) {
  return AddRead<std::string>(
      flag, app,
      [variable](const std::string& given) {
        // The check has passed it.
        *variable = ParseBytes(given).value_or(0);
      },
      [variable] { return absl::StrCat(*variable); });
}

CLI::Option* AddOption(const Flag& flag, CLI::App* app) {
  const std::string names(flag.names);
  const std::string help(flag.help);
  return std::visit(
      [&](auto variable) -> CLI::Option* {
        using Variable = decltype(variable);
        if constexpr (std::is_same_v<Variable, std::monostate>) {
          return app->add_option(names, help)->type_name("TEXT");
        } else if constexpr (std::is_same_v<Variable, bool*>) {
          return app->add_flag(names, *variable, help);
        } else if constexpr (std::is_same_v<Variable, Duration*>) {
          return AddDuration(flag, variable, app);
        } else {
          if constexpr (std::is_same_v<Variable, int64_t*>) {
            if (flag.check.kind == FlagCheck::Kind::kByteCount) {
              return AddByteCount(flag, variable, app);
            }
          }
          return app->add_option(names, *variable, help);
        }
      },
      flag.variable);
}

}  // namespace

FlagSet::FlagSet(absl::string_view program, absl::string_view description)
    : program_(std::make_unique<CLI::App>(std::string(description), std::string(program))),
      app_(program_.get()) {}

FlagSet::FlagSet(CLI::App* command, const FlagSet& parent)
    : app_(command), prefix_(parent.prefix_), file_(parent.file_) {
  // The variables of other commands' flags are nothing to the one that is given.
  app_->preparse_callback([this](size_t) {
    for (const auto& [option, variable] : variables_) option->envname(variable);
  });
  if (file_ != nullptr) AddShowSettings();
}

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
  AddShowSettings();
}

void FlagSet::AddShowSettings() {
  const std::string help = "Print all options as lines of such a file, with their sources, and end";
  app_->add_flag(std::string(kShowSettings), help)->configurable(false);
}

void FlagSet::AddFooter(absl::string_view text) { app_->footer(std::string(text)); }

void FlagSet::Add(std::initializer_list<Flag> flags, absl::string_view group) {
  for (const Flag& flag : flags) AddOne(flag, group);
}

void FlagSet::AddOne(const Flag& flag, absl::string_view group) {
  CLI::Option* option = AddOption(flag, app_);
  if (!group.empty()) option->group(std::string(group));
  const std::string variable =
      flag.environment.empty() ? VariableOf(prefix_, *option) : std::string(flag.environment);
  if (program_ != nullptr) {
    option->envname(variable);
  } else {
    variables_.emplace_back(option, variable);
  }
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
  commands_.push_back(std::unique_ptr<FlagSet>(new FlagSet(command, *this)));
  return commands_.back().get();
}

std::string FlagSet::Explain(const CLI::ParseError& error,
                             const std::vector<std::string>& line) const {
  const CLI::App& command = GivenCommand(*app_);
  // A required flag may be there under another name.
  const std::vector<std::string> left = app_->remaining(/*recurse=*/true);
  const CLI::Option* const option = OptionOf(command, error);
  const std::string text = ExplainError(command, error, option);
  if (!left.empty()) {
    const std::string unknown = ExplainUnknown(command, left.front());
    // Where others are taken one is the cause only if it is meant for a flag of ours.
    if (!command.get_allow_extras() || unknown.back() == '?') return unknown;
  }
  const std::string source = option == nullptr ? "" : SourceOf(*option, line, file_.get());
  return source.empty() || source == kFromCommandLine ? text
                                                      : absl::StrCat(text, " (from ", source, ")");
}

std::optional<int> FlagSet::Parse(int argc, const char* const* argv) {
  const std::vector<std::string> line(argv + 1, argv + argc);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help) {  // of --help and --version
    return app_->exit(help);
  } catch (const CLI::ParseError& error) {
    // What is asked for is what was told so far.
    if (error.get_name() == "RequiredError" && ShowsSettings()) return PrintSettings(line);
    const std::string path = PathOf(GivenCommand(*app_));
    const std::string why = Explain(error, line);
    std::fprintf(stderr, "%s: %s%s %s --help\n", path.c_str(), why.c_str(),
                 why.back() == '?' ? " See" : "; see", path.c_str());
    return kExitUsageError;
  }
  return ShowsSettings() ? PrintSettings(line) : std::nullopt;
}

std::optional<int> FlagSet::PrintSettings(const std::vector<std::string>& line) const {
  std::fputs(Settings(line).c_str(), stdout);
  return std::ferror(stdout) != 0 || std::fflush(stdout) != 0 ? 1 : 0;
}

bool FlagSet::ShowsSettings() const {
  const CLI::Option* const shown = app_->get_option_no_throw(std::string(kShowSettings));
  return (shown != nullptr && shown->count() > 0) ||
         std::any_of(commands_.begin(), commands_.end(),
                     [](const auto& command) { return command->ShowsSettings(); });
}

std::string FlagSet::Settings(const std::vector<std::string>& line) const {
  return SettingsText(GivenCommand(*app_), line, file_.get());
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

void FlagSet::TakeOthers() { app_->allow_extras(); }

std::vector<std::string> FlagSet::Others() const { return app_->remaining(); }

std::string FlagSet::ExplainOther(const std::string& argument) const {
  const std::string why = ExplainUnknown(*app_, argument);
  return absl::StrCat(why, why.back() == '?' ? " See " : "; see ", PathOf(*app_), " --help");
}

std::vector<std::string> FlagSet::Variables() const {
  std::vector<std::string> names;
  for (const auto& [option, variable] : variables_) names.push_back(variable);
  return names;
}

bool FlagSet::chosen() const { return app_->parsed(); }

bool FlagSet::Given(absl::string_view name) const { return app_->count(std::string(name)) > 0; }

std::string FlagSet::Text(absl::string_view name) const {
  return app_->get_option(std::string(name))->results().front();
}

}  // namespace tutti
