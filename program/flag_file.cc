#include "program/flag_file.h"

// Headers only: Debian's library is built with exceptions, and is one more to be there at run time.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "program/suggestion.h"

namespace tutti {
namespace {

// A program has some fifty flags, and the longest value is a device map.
constexpr std::streamsize kFileBytesMax = 1 << 20;

std::string ReadBounded(std::istream& in, const std::string& path) {
  std::string text(static_cast<size_t>(kFileBytesMax) + 1, '\0');
  in.read(text.data(), kFileBytesMax + 1);
  if (in.gcount() > kFileBytesMax) {
    throw CLI::ConfigError(absl::StrCat(path, " has more than ", kFileBytesMax, " bytes"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// Reads one file.
class Reader {
 public:
  Reader(std::string path, std::map<const CLI::Option*, std::string>* places)
      : path_(std::move(path)), places_(places) {}

  void ReadTable(const toml::table& table, const CLI::App& command,
                 const std::vector<std::string>& parents) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (const toml::table* const section = node.as_table()) {
        ReadSection(name, *section, command, parents);
      } else {
        ReadValue(name, node, command, parents);
      }
    }
  }
  std::vector<CLI::ConfigItem> ReleaseItems() { return std::move(items_); }

 private:
  std::string Place(const toml::node& node) const {
    return absl::StrCat(path_, ":", node.source().begin.line);
  }

  void ReadSection(const std::string& name, const toml::table& section, const CLI::App& command,
                   std::vector<std::string> parents) {
    std::vector<std::string> names;
    for (const CLI::App* const known : command.get_subcommands(nullptr)) {
      names.push_back(known->get_name());
      if (known->get_name() != name) continue;
      parents.push_back(name);
      return ReadTable(section, *known, parents);
    }
    throw CLI::ConfigError(absl::StrCat(Place(section), ": ", command.get_name(),
                                        " has no command \"", name, "\"", DidYouMean(name, names)));
  }

  void ReadValue(const std::string& name, const toml::node& node, const CLI::App& command,
                 const std::vector<std::string>& parents) {
    const std::string flag = "--" + name;
    const CLI::Option* const option = command.get_option_no_throw(flag);
    if (option == nullptr || !option->get_configurable()) {
      std::vector<std::string> names;
      for (const CLI::Option* known : command.get_options()) {
        for (const std::string& spelling : known->get_lnames()) names.push_back(spelling);
      }
      throw CLI::ConfigError(absl::StrCat(Place(node), ": ", command.get_name(),
                                          " has no option \"", name, "\"",
                                          DidYouMean(name, names)));
    }
    // Of other commands the names alone are looked at.
    if (!command.parsed() || IsInEnvironment(*option)) return;
    (*places_)[option] = Place(node);
    CLI::ConfigItem& item = items_.emplace_back();
    item.parents = parents;
    item.name = name;
    if (const toml::array* const list = node.as_array()) {
      if (list->empty()) return items_.pop_back();
      for (const toml::node& one : *list) item.inputs.push_back(Scalar(name, one));
    } else {
      item.inputs.push_back(Scalar(name, node));
    }
  }

  std::string Scalar(const std::string& name, const toml::node& node) const {
    if (const auto* const text = node.as_string()) return text->get();
    if (const auto* const number = node.as_integer()) return std::to_string(number->get());
    if (const auto* const truth = node.as_boolean()) return truth->get() ? "true" : "false";
    if (const auto* const number = node.as_floating_point()) {
      std::ostringstream shortest;
      shortest << toml::value<double>(number->get());
      return shortest.str();
    }
    throw CLI::ConfigError(absl::StrCat(Place(node), ": the value of ", name,
                                        " is neither a text, a number, true or false, nor a "
                                        "list of these"));
  }

  const std::string path_;
  std::map<const CLI::Option*, std::string>* const places_;
  std::vector<CLI::ConfigItem> items_;
};

}  // namespace

bool IsInEnvironment(const CLI::Option& option) {
  if (option.get_envname().empty()) return false;
  const char* const text = std::getenv(option.get_envname().c_str());
  return text != nullptr && *text != '\0';
}

std::vector<CLI::ConfigItem> FlagFile::from_config(std::istream& in) const {
  const std::string path = program_->get_config_ptr()->as<std::string>();
  places_.clear();
  const toml::parse_result parsed = toml::parse(ReadBounded(in, path), path);
  if (!parsed) {
    throw CLI::ConfigError(absl::StrCat(path, ":", parsed.error().source().begin.line, ": ",
                                        std::string(parsed.error().description())));
  }
  Reader reader(path, &places_);
  reader.ReadTable(parsed.table(), *program_, {});
  return reader.ReleaseItems();
}

std::string FlagFile::PlaceOf(const CLI::Option& option) const {
  const auto found = places_.find(&option);
  return found == places_.end() ? "" : found->second;
}

}  // namespace tutti
