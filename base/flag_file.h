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

  // The values for flags that the environment does not set: it wins over the file. CLI::ConfigError
  // names file and line of what cannot be read and of keys that no flag has.
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override;
  // We write none.
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  // "FILE:LINE" of the value of a flag "--name"; "" if the file gives it none.
  std::string PlaceOf(const std::string& flag) const;

 private:
  const CLI::App* const program_;
  mutable std::map<std::string, std::string> places_;  // of what from_config has read, by flag
};

}  // namespace tutti
