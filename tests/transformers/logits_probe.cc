// The numbers that we compute from a checkpoint, for resaved_test.py: reads one question as JSON
// from its standard input, and writes the answer to its standard output.
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/config_json.h"
#include "model/generation_config.h"
#include "model/partition.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

using nlohmann::json;

int Fail(const std::string& why) {
  std::cerr << why << "\n";
  return 1;
}

int Main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const json question = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!question.is_object()) return Fail("not a JSON object");
  const std::string dir = question.value("model", "");
  const int first_layers = question.value("first_stage_layers", 0);
  const int ranks = question.value("ranks", 1);
  const auto config = model::LoadModelConfig(dir);
  if (!config.ok()) return Fail(std::string(config.status().message()));
  if (const auto read = model::LoadGenerationConfig(dir, *config); !read.ok()) {
    return Fail(std::string(read.status().message()));
  }
  json answer = {{"dtype", std::string(DTypeName(config->dtype))}};
  if (!model::CheckRanks(*config, ranks).ok()) {
    std::cout << json{{"refused_layout", true}} << "\n";
    return 0;
  }
  TestPipelineOptions options{.model_dir = dir, .backend = "cpu"};
  const auto layers = static_cast<int32_t>(config->num_layers);
  if (first_layers > 0) {
    options.layers = {first_layers, layers - first_layers};
    options.ranks = {ranks, ranks};
  } else {
    options.ranks = {ranks};
  }
  TestPipeline pipeline(options);
  std::vector<TestRequest> requests;
  for (const json& prompt : question["prompts"]) {
    requests.push_back({.prompt = prompt.get<std::vector<TokenId>>(),
                        .max_tokens = question.value("output_tokens", 1)});
  }
  const std::vector<TestOutput> outputs = pipeline.Generate(requests, /*chunk=*/7);
  for (size_t i = 0; i < requests.size(); ++i) {
    json logits = json::array();
    if (ranks == 1) logits = pipeline.LastLogits(requests[i].prompt, /*chunk=*/0);
    answer["answers"].push_back({{"logits", logits}, {"ids", outputs[i].ids()}});
    answer["bits"].push_back(outputs[i].bits());
  }
  std::cout << answer << "\n";
  return 0;
}

}  // namespace
}  // namespace tutti::worker

int main() { return tutti::worker::Main(); }
