#include "base/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/byte_size.h"
#include "base/flag_file.h"
#include "base/suggestion.h"

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

std::vector<std::string> NamesOfOptions(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

// The first "--name" in a message of the parser's; "" if there is none.
std::string NameIn(const std::string& text) {
  const size_t begin = text.find("--");
  if (begin == std::string::npos) return "";
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_", begin);
  return text.substr(begin, end - begin);
}

const CLI::Option* FindOption(const CLI::App& command, const std::string& name) {
  for (const CLI::App* app = &command; app != nullptr && !name.empty(); app = app->get_parent()) {
    if (const CLI::Option* const option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

bool IsOnLine(const CLI::Option& option, const std::vector<std::string>& line) {
  return std::any_of(line.begin(), line.end(), [&](const std::string& argument) {
    return option.check_name(argument.substr(0, argument.find('=')));
  });
}

// An argument that neither the program nor the command knows.
std::string ExplainUnknown(const CLI::App& command, const std::string& argument) {
  const std::string shown = absl::Utf8SafeCEscape(argument);
  if (absl::StartsWith(argument, "-") && argument != "-") {
    const std::string name = argument.substr(0, argument.find('='));
    return absl::StrCat("there is no option ", absl::Utf8SafeCEscape(name),
                        DidYouMean(name, NamesOfOptions(command)));
  }
  std::vector<std::string> commands;
  for (const CLI::App* known : command.get_subcommands(nullptr)) {
    commands.push_back(known->get_name());
  }
  if (commands.empty()) return absl::StrCat("\"", shown, "\" is one argument too many");
  return absl::StrCat("there is no command \"", shown, "\"", DidYouMean(argument, commands));
}

CLI::Validator SizeValidator() {
  return CLI::Validator(
      [](std::string& text) {
        const auto bytes = ParseBytes(text);
        return bytes.ok() ? std::string() : std::string(bytes.status().message());
      },
      "SIZE");
}

void AddCheck(const FlagCheck& check, CLI::Option* option) {
  switch (check.kind) {
    case FlagCheck::Kind::kAny:
      return;
    case FlagCheck::Kind::kIntegerIn:
      option->check(CLI::Range(check.integer_min, check.integer_max));
      return;
    case FlagCheck::Kind::kNumberIn:
      option->check(CLI::Range(check.number_min, check.number_max));
      return;
    case FlagCheck::Kind::kNotNegative:
      option->check(CLI::NonNegativeNumber);
      return;
    case FlagCheck::Kind::kPositive:
      option->check(CLI::PositiveNumber);
      return;
    case FlagCheck::Kind::kOneOf: {
      const std::vector<std::string> choices = absl::StrSplit(check.choices, ',');
      option->check(CLI::IsMember(choices));
      return;
    }
    case FlagCheck::Kind::kSize:
      option->check(SizeValidator());
      return;
    case FlagCheck::Kind::kByteCount:
      option->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
      return;
    case FlagCheck::Kind::kFile:
      option->check(CLI::ExistingFile);
      return;
    case FlagCheck::Kind::kFolder:
      option->check(CLI::ExistingDirectory);
      return;
  }
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
  AddCheck(flag.check, option);
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
  const std::string text = error.what();
  const CLI::Option* const option = FindOption(command, NameIn(text));
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
    std::fprintf(stderr, "%s: %s; see %s --help\n", path.c_str(),
                 Explain(error, {argv + 1, argv + argc}).c_str(), path.c_str());
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
