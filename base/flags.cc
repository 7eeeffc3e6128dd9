#include "base/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/byte_size.h"

namespace tutti {
namespace {

// Reads a strict file as CLI11 does, less the keys whose flag is set in the environment: CLI11
// itself would let the file win over it.
class StrictFileReader : public CLI::ConfigTOML {
 public:
  explicit StrictFileReader(const CLI::App* root) : root_(root) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(in);
    items.erase(std::remove_if(items.begin(), items.end(),
                               [this](const CLI::ConfigItem& item) { return InEnvironment(item); }),
                items.end());
    return items;
  }

 private:
  bool InEnvironment(const CLI::ConfigItem& item) const {
    const CLI::App* app = root_;
    for (const std::string& parent : item.parents) {
      const auto named = app->get_subcommands(
          [&parent](const CLI::App* sub) { return sub->get_name() == parent; });
      if (named.empty()) return false;
      app = named.front();
    }
    const CLI::Option* option = app->get_option_no_throw("--" + item.name);
    return option != nullptr && !option->get_envname().empty() &&
           std::getenv(option->get_envname().c_str()) != nullptr;
  }

  const CLI::App* const root_;
};

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

FlagSet::FlagSet(CLI::App* command) : app_(command) {}

FlagSet::~FlagSet() = default;

void FlagSet::AddVersion(std::string_view text) {
  app_->set_version_flag("--version", std::string(text));
}

void FlagSet::AddFile(const FlagFile& file) {
  app_->set_config("--config", "", std::string(file.help))->envname(std::string(file.environment));
  if (!file.strict) return;
  app_->allow_config_extras(CLI::config_extras_mode::error);
  app_->config_formatter(std::make_shared<StrictFileReader>(app_));
}

void FlagSet::AddFooter(absl::string_view text) { app_->footer(std::string(text)); }

void FlagSet::Add(std::initializer_list<Flag> flags, absl::string_view group) {
  for (const Flag& flag : flags) AddOne(flag, group);
}

void FlagSet::AddOne(const Flag& flag, absl::string_view group) {
  CLI::Option* option = AddOption(flag, app_);
  if (!group.empty()) option->group(std::string(group));
  if (!flag.environment.empty()) option->envname(std::string(flag.environment));
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
  commands_.push_back(std::unique_ptr<FlagSet>(new FlagSet(command)));
  return commands_.back().get();
}

std::optional<int> FlagSet::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    // Without a known command an unknown one is left over; naming it says more than "required".
    const std::vector<std::string> left = app_->remaining();
    if (commands_.empty() || left.empty()) {
      app_->exit(error);
      return kExitUsageError;
    }
    std::fprintf(stderr, "%s: there is no subcommand \"%s\"; see %s --help\n",
                 app_->get_name().c_str(), absl::Utf8SafeCEscape(left.front()).c_str(),
                 app_->get_name().c_str());
    return kExitUsageError;
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too, with code 0.
    return app_->exit(error) == 0 ? 0 : kExitUsageError;
  }
  return std::nullopt;
}

absl::Status FlagSet::ParseArguments(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 wants of a vector
  try {
    app_->parse(arguments);
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return absl::OkStatus();
}

bool FlagSet::chosen() const { return app_->parsed(); }

bool FlagSet::Given(absl::string_view name) const { return app_->count(std::string(name)) > 0; }

std::string FlagSet::Text(absl::string_view name) const {
  return app_->get_option(std::string(name))->results().front();
}

}  // namespace tutti
