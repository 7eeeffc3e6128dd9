// The --config FILE of a program: TOML, with the flags without "--" as keys and a section for each
// command. Seen by flags.cc only.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace tutti {

// Whether the option's variable of the environment has a text.
bool IsInEnvironment(const CLI::Option& option);

class FlagFile : public CLI::Config {
 public:
  explicit FlagFile(const CLI::App* program) : program_(program) {}

  // The values for flags of the command that was given, which the environment does not set: it wins
  // over the file. CLI::ConfigError names file and line of what cannot be read and of keys that no
  // flag has, of any command.
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;
  // We write none.
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  // "FILE:LINE" of the value of an option; "" if the file gives it none.
  std::string PlaceOf(const CLI::Option& option) const;

 private:
  const CLI::App* const program_;
  mutable std::map<const CLI::Option*, std::string> places_;  // of what from_config has read
};

}  // namespace tutti
