#include "client/plan.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/format.h"

namespace tutti {
namespace {

// A real config.json has about 1 KiB; one megabyte is none.
constexpr int64_t kConfigBytesMax = 1 << 20;

absl::StatusOr<ModelConfig> LoadConfig(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return LoadModelConfig(path);
  const auto size = std::filesystem::file_size(path, error);
  if (error || size > static_cast<uintmax_t>(kConfigBytesMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a config.json: larger than ", FormatBytes(kConfigBytesMax)));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return ParseModelConfig(text.str(), path);
}

std::string Layers(const StagePlan& stage) {
  std::string text = stage.has_embedding ? "embedding + " : "";
  absl::StrAppend(&text, stage.first_layer);
  if (stage.num_layers > 1) {
    absl::StrAppend(&text, "-", stage.first_layer + stage.num_layers - 1);
  }
  return text + (stage.has_head ? " + head" : "");
}

}  // namespace

absl::StatusOr<PlanReport> MakePlan(const PlanRequest& request) {
  PlanReport report;
  TUTTI_ASSIGN_OR_RETURN(report.model, LoadConfig(request.model));
  std::vector<DeviceSpec> devices;
  for (size_t i = 0; i < request.devices.size(); ++i) {
    devices.push_back(
        {.name = absl::StrCat("device ", i), .memory_bytes = request.devices[i], .speed = {}});
  }
  TUTTI_ASSIGN_OR_RETURN(report.plan, PlanPlacement(report.model, devices, request.options));
  return report;
}

std::string RenderPlan(const PlanReport& report) {
  const ModelConfig& model = report.model;
  std::string out =
      absl::StrCat(OneLine(model.architecture), ", ", model.num_layers, " layers, hidden ",
                   model.hidden_size, ", ", std::string(DTypeName(model.dtype)), ", context ",
                   FormatCount(model.max_position_embeddings), " tokens\n\n");
  using Align = Table::Align;
  Table table({{"stage", Align::kLeft},
               {"device", Align::kLeft},
               {"layers", Align::kLeft},
               {"weights"},
               {"KV cache"},
               {"KV per token"},
               {"activations"},
               {"peak"},
               {"memory"},
               {"free"}});
  const int64_t kv_tokens = report.plan.kv_tokens();
  for (size_t i = 0; i < report.plan.stages.size(); ++i) {
    const StagePlan& stage = report.plan.stages[i];
    for (const RankPlan& rank : stage.ranks) {
      table.AddRow(
          {absl::StrCat(i), OneLine(rank.device), Layers(stage), FormatBytes(rank.weight_bytes),
           FormatBytes(rank.kv_bytes), kv_tokens > 0 ? FormatBytes(rank.kv_bytes / kv_tokens) : "-",
           FormatBytes(rank.activation_bytes), FormatBytes(rank.peak_bytes()),
           FormatBytes(rank.budget_bytes), FormatBytes(rank.budget_bytes - rank.peak_bytes())});
    }
  }
  absl::StrAppend(&out, table.ToString(), "\nKV room: ", FormatCount(kv_tokens), " tokens (",
                  FormatCount(report.plan.num_blocks), " blocks of ", report.plan.block_size,
                  " on every stage)\n");
  return out;
}

std::string PlanToJson(const PlanReport& report) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (size_t i = 0; i < report.plan.stages.size(); ++i) {
    const StagePlan& stage = report.plan.stages[i];
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const RankPlan& rank : stage.ranks) {
      ranks.push_back({{"device", rank.device},
                       {"budget_bytes", rank.budget_bytes},
                       {"weight_bytes", rank.weight_bytes},
                       {"kv_bytes", rank.kv_bytes},
                       {"activation_bytes", rank.activation_bytes},
                       {"peak_bytes", rank.peak_bytes()}});
    }
    stages.push_back({{"stage", i},
                      {"first_layer", stage.first_layer},
                      {"num_layers", stage.num_layers},
                      {"has_embedding", stage.has_embedding},
                      {"has_head", stage.has_head},
                      {"ranks", ranks}});
  }
  const nlohmann::ordered_json json = {{"architecture", report.model.architecture},
                                       {"num_layers", report.model.num_layers},
                                       {"dtype", std::string(DTypeName(report.model.dtype))},
                                       {"context_length", report.model.max_position_embeddings},
                                       {"block_size", report.plan.block_size},
                                       {"num_blocks", report.plan.num_blocks},
                                       {"kv_tokens", report.plan.kv_tokens()},
                                       {"stages", stages}};
  // Names come from a file: bytes that are not UTF-8 are replaced, which never throws.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tutti
