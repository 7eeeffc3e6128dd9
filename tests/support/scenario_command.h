// The commands of a scenario, read from its lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/engine_options.h"

namespace tutti::tests {

// One command: its words, and its KEY=VALUE pairs.
struct ScenarioCommand {
  std::vector<std::string> words;
  std::map<std::string, std::string> values;

  std::string Text(const std::string& key, const std::string& otherwise) const;
  int64_t Number(const std::string& key, int64_t otherwise) const;
  // "1,2,nan": a word that is no number becomes -1.
  std::vector<int32_t> Numbers(const std::string& key) const;
};

ScenarioCommand ParseScenarioCommand(const std::string& line);

// The options of the command "engine".
coordinator::EngineOptions ScenarioEngineOptions(const ScenarioCommand& command);

}  // namespace tutti::tests
