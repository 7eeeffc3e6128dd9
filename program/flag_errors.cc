#include "program/flag_errors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "program/flag_synonyms.h"
#include "program/suggestion.h"

namespace tutti {
namespace {

std::vector<std::string> NamesOfOptions(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> NamesOfCommands(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* known : program.get_subcommands(nullptr)) {
    names.push_back(known->get_name());
  }
  return names;
}

// A suggestion as DidYouMean; another server's name for a thing counts before what looks alike.
std::string Suggestion(const std::string& word, const std::vector<std::string>& names) {
  const std::string ours = OurName(word, names);
  return ours.empty() ? DidYouMean(word, names) : absl::StrCat("; did you mean ", ours, "?");
}

// An argument without a name, where a command takes none: the option that it may be the value of,
// which is the one that must be given, or the first if that is any text.
std::string OptionForArgument(const CLI::App& command) {
  const CLI::Option* first = nullptr;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) {
      if (option->get_positional()) return "";
      continue;
    }
    if (!option->get_configurable() || option == command.get_help_ptr()) continue;
    if (option->get_required() && option->count() == 0) return "--" + option->get_lnames()[0];
    if (first == nullptr) first = option;
  }
  const bool any_text = first != nullptr && first->get_type_name() == "TEXT";
  return any_text && first->count() == 0 ? "--" + first->get_lnames()[0] : "";
}

std::string WhyUnreadable(const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return std::strerror(errno);
  if (S_ISDIR(about.st_mode)) return "it is a folder; give a file";
  return access(path.c_str(), R_OK) != 0 ? std::strerror(errno) : "it cannot be opened";
}

// The first "--name" in a message of the parser's; "" if there is none.
std::string NameIn(const std::string& text) {
  const size_t begin = text.find("--");
  if (begin == std::string::npos) return "";
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_", begin);
  return text.substr(begin, end - begin);
}

std::string NameOf(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames()[0];
}

// "Could not convert: --name = value".
std::string ExplainConversion(const std::string& text, const CLI::Option& option) {
  const size_t equals = text.find(" = ");
  if (equals == std::string::npos || option.get_items_expected_max() == 0) {
    return absl::StrCat(NameOf(option),
                        " is a switch: give it without a value, or =true or =false");
  }
  const std::string value = absl::Utf8SafeCEscape(text.substr(equals + 3));
  const std::string kind = option.get_type_name();
  const size_t sign = !value.empty() && (value[0] == '-' || value[0] == '+') ? 1 : 0;
  const bool whole =
      value.size() > sign && value.find_first_not_of("0123456789", sign) == std::string::npos;
  if (whole && absl::StrContains(kind, "INT")) {
    return absl::StrCat(NameOf(option), ": \"", value, "\" is too ",
                        value[0] == '-' ? "small" : "large");
  }
  const char* wanted = absl::StartsWith(kind, "UINT")  ? "no whole number from 0 up"
                       : absl::StartsWith(kind, "INT") ? "no whole number"
                                                       : "no number";
  return absl::StrCat(NameOf(option), ": \"", value, "\" is ", wanted);
}

std::string ExplainCount(const std::string& text, const CLI::Option& option) {
  static constexpr absl::string_view kReceived = "required but received ";
  const size_t received = text.find(std::string(kReceived));
  if (absl::StrContains(text, "At Most") && received != std::string::npos) {
    return absl::StrCat(NameOf(option), " is given ", text.substr(received + kReceived.size()),
                        " times; give it once");
  }
  if (absl::StrContains(text, "override")) {
    return absl::StrCat(NameOf(option), " is a switch: give it without a value");
  }
  return absl::StrCat(NameOf(option), " needs a value behind it");
}

}  // namespace

const CLI::Option* OptionOf(const CLI::App& command, const CLI::ParseError& error) {
  const std::string name = NameIn(error.what());
  for (const CLI::App* app = &command; app != nullptr && !name.empty(); app = app->get_parent()) {
    if (const CLI::Option* const option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

std::string ExplainUnknown(const CLI::App& command, const std::string& argument) {
  const std::string shown = absl::Utf8SafeCEscape(argument);
  if (absl::StartsWith(argument, "-") && argument != "-") {
    const std::string name = argument.substr(0, argument.find('='));
    for (const CLI::App* app = command.get_parent(); app != nullptr; app = app->get_parent()) {
      if (app->get_option_no_throw(name) == nullptr) continue;
      return absl::StrCat(name, " stands before the name of the command, not behind it");
    }
    return absl::StrCat("there is no option ", absl::Utf8SafeCEscape(name),
                        Suggestion(name, NamesOfOptions(command)));
  }
  const std::vector<std::string> commands = NamesOfCommands(command);
  if (commands.empty()) {
    const std::string option = OptionForArgument(command);
    return absl::StrCat("\"", shown, "\" is one argument too many",
                        option.empty() ? "" : absl::StrCat("; did you mean ", option, "?"));
  }
  return absl::StrCat(
      "there is no command \"", shown, "\"",
      argument == "help" ? "; did you mean --help?" : Suggestion(argument, commands));
}

std::string ExplainError(const CLI::App& command, const CLI::ParseError& error,
                         const CLI::Option* option) {
  const std::string text = error.what(), kind = error.get_name();
  if (kind == "RequiredError" && absl::StartsWith(text, "A subcommand")) {
    return absl::StrCat("a command is required: ", absl::StrJoin(NamesOfCommands(command), ", "));
  }
  if (kind == "RequiredError") {
    const CLI::Option* const missing =
        option != nullptr ? option
                          : command.get_option_no_throw(text.substr(0, text.find(" is required")));
    if (missing == nullptr || missing->get_description().empty()) return text;
    return absl::StrCat(text, ": ", missing->get_description());
  }
  if (kind == "FileError") {
    const std::string path = text.substr(0, text.find(" was not"));
    return absl::StrCat("--config: cannot read the file ", path, ": ", WhyUnreadable(path));
  }
  if (option == nullptr) return text;
  if (kind == "ConversionError") return ExplainConversion(text, *option);
  if (kind == "ArgumentMismatch") return ExplainCount(text, *option);
  const size_t excludes = text.find(" excludes ");
  if (kind == "ExcludesError" && excludes != std::string::npos) {
    return absl::StrCat(text.substr(0, excludes), " and ", text.substr(excludes + 10),
                        " exclude each other; give one of them");
  }
  return text;
}

}  // namespace tutti
