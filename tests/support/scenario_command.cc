#include "tests/support/scenario_command.h"

#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/support/tiny_model.h"

namespace tutti::tests {

std::string ScenarioCommand::Text(const std::string& key, const std::string& otherwise) const {
  const auto found = values.find(key);
  return found == values.end() ? otherwise : found->second;
}

int64_t ScenarioCommand::Number(const std::string& key, int64_t otherwise) const {
  int64_t number = otherwise;
  const auto found = values.find(key);
  if (found != values.end() && !absl::SimpleAtoi(found->second, &number)) number = otherwise;
  return number;
}

std::vector<int32_t> ScenarioCommand::Numbers(const std::string& key) const {
  std::vector<int32_t> numbers;
  const auto found = values.find(key);
  if (found == values.end()) return numbers;
  for (const auto& word : absl::StrSplit(found->second, ',')) {
    int32_t number = -1;
    if (!absl::SimpleAtoi(word, &number)) number = -1;
    numbers.push_back(number);
  }
  return numbers;
}

ScenarioCommand ParseScenarioCommand(const std::string& line) {
  ScenarioCommand command;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      command.words.push_back(word);
    } else {
      command.values[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return command;
}

coordinator::EngineOptions ScenarioEngineOptions(const ScenarioCommand& command) {
  coordinator::EngineOptions options;
  options.model = TinyModel(command.Number("layers", 4));
  options.model_name = "tiny";
  options.model_fingerprint = "tiny-print";
  options.build = "build-1";
  options.cluster_id = "cluster";
  options.num_stages = static_cast<int32_t>(command.Number("stages", 1));
  options.num_pipelines = static_cast<int32_t>(command.Number("pipelines", 1));
  options.enable_prefix_caching = command.Number("cache", 1) != 0;
  options.kv_tokens_max = command.Number("blocks", 64) * options.block_size;
  options.max_batch_tokens = static_cast<int32_t>(command.Number("batch", 64));
  options.chunk_tokens = static_cast<int32_t>(command.Number("chunk", 32));
  options.max_sequences = static_cast<int32_t>(command.Number("sequences", 8));
  options.max_waiting = static_cast<int32_t>(command.Number("waiting", 8));
  options.max_model_len = static_cast<int32_t>(command.Number("len", 0));
  options.numerics_class = command.Text("class", "");
  options.mix_numerics = command.Number("mix", 0) != 0;
  options.guesses_max = static_cast<int32_t>(command.Number("guesses", 0));
  options.load_timeout = std::chrono::milliseconds(command.Number("load_timeout", 60000));
  for (const auto& stage : absl::StrSplit(command.Text("map", ""), ',', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(stage, ':');
    int32_t layers = 0;
    if (parts.size() == 2 && absl::SimpleAtoi(parts[1], &layers)) {
      options.device_map.stages.push_back(
          {.devices = {{.index = -1, .name = parts[0]}}, .num_layers = layers});
    }
  }
  return options;
}

}  // namespace tutti::tests
