#include "program/flag_sources.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tutti {
namespace {

bool IsOnLine(const CLI::Option& option, const std::vector<std::string>& line) {
  return std::any_of(line.begin(), line.end(), [&](const std::string& argument) {
    if (option.check_name(argument.substr(0, argument.find('=')))) return true;
    // A short name may have its value behind it: -t0.5.
    const bool is_short = argument.size() > 2 && argument[0] == '-' && argument[1] != '-';
    return is_short && option.check_name(argument.substr(0, 2));
  });
}

std::string TomlString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04X", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

// Whole numbers as TOML writes them; all else is a text there, which an option of any kind takes.
std::string TomlText(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) && absl::StrCat(number) == text ? text : TomlString(text);
}

bool IsSwitch(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

std::string ValueOf(const CLI::Option& option) {
  if (IsSwitch(option)) return option.as<bool>() ? "true" : "false";
  const std::vector<std::string>& values = option.results();
  if (values.size() == 1) return TomlText(values.front());
  return absl::StrCat("[",
                      absl::StrJoin(values, ", ",
                                    [](std::string* out, const std::string& value) {
                                      absl::StrAppend(out, TomlText(value));
                                    }),
                      "]");
}

void AppendOption(const CLI::Option& option, const std::string& source, std::string* out) {
  const std::string& name = option.get_lnames()[0];
  if (!source.empty()) {
    absl::StrAppend(out, name, " = ", ValueOf(option), "  # ", source, "\n");
    return;
  }
  const std::string usual = option.get_default_str();
  absl::StrAppend(out, "# ", name,
                  usual.empty() ? "" : absl::StrCat(" = ", TomlText(usual), "  # the default"),
                  "\n");
}

}  // namespace

std::string SourceOf(const CLI::Option& option, const std::vector<std::string>& line,
                     const FlagFile* file) {
  if (IsOnLine(option, line)) return kFromCommandLine;
  if (IsInEnvironment(option)) return absl::StrCat("the environment's ", option.get_envname());
  return file == nullptr ? "" : file->PlaceOf(option);
}

std::string SettingsText(const CLI::App& command, const std::vector<std::string>& line,
                         const FlagFile* file) {
  std::string out, section;
  std::vector<const CLI::App*> path;
  for (const CLI::App* one = &command; one != nullptr; one = one->get_parent()) path.push_back(one);
  std::reverse(path.begin(), path.end());
  for (const CLI::App* one : path) {
    if (one->get_parent() != nullptr) {
      absl::StrAppend(&section, section.empty() ? "" : ".", one->get_name());
      absl::StrAppend(&out, "[", section, "]\n");
    }
    for (const CLI::Option* option : one->get_options()) {
      if (option->get_lnames().empty() || !option->get_configurable()) continue;
      AppendOption(*option, option->count() > 0 ? SourceOf(*option, line, file) : "", &out);
    }
  }
  return out;
}

}  // namespace tutti
