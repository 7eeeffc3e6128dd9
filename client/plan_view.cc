// A plan as people and programs read it.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/byte_size.h"
#include "client/format.h"
#include "client/plan.h"

namespace tutti::client {
namespace {

using Align = Table::Align;
using Json = nlohmann::ordered_json;

// Pipelines and rejected layouts that are shown in full; --json has all.
constexpr size_t kPipelinesShown = 4;
constexpr size_t kRejectedShown = 6;

std::string Layers(const placement::StagePlacement& stage) {
  std::string text = stage.has_embedding ? "embedding + " : "";
  absl::StrAppend(&text, stage.first_layer);
  if (stage.num_layers > 1) {
    absl::StrAppend(&text, "-", stage.first_layer + stage.num_layers - 1);
  }
  return text + (stage.has_head ? " + head" : "");
}

// The bytes of all stages and ranks together.
int64_t KvBytesPerToken(const placement::Placement& pipeline) {
  int64_t bytes = 0;
  for (const placement::StagePlacement& stage : pipeline.stages) {
    for (const placement::RankPlacement& rank : stage.ranks) bytes += rank.kv_bytes;
  }
  return pipeline.kv_tokens() > 0 ? bytes / pipeline.kv_tokens() : 0;
}

std::string Rate(double per_second) {
  return per_second >= 100 ? FormatCount(static_cast<int64_t>(per_second))
                           : absl::StrFormat("%.3g", per_second);
}

std::string BytesPerToken(double bytes) {
  return bytes > 0 ? FormatCount(static_cast<int64_t>(bytes)) : "-";
}

std::string PipelineTable(const placement::Placement& pipeline,
                          const placement::PlacementPrediction& predicted) {
  Table table({{"stage", Align::kLeft},
               {"rank", Align::kLeft},
               {"device", Align::kLeft},
               {"layers", Align::kLeft},
               {"weights"},
               {"KV cache"},
               {"KV per token"},
               {"activations"},
               {"peak"},
               {"memory"},
               {"free"},
               {"step"},
               {"hop B/token"},
               {"ranks B/token"}});
  const int64_t kv_tokens = pipeline.kv_tokens();
  for (size_t i = 0; i < pipeline.stages.size(); ++i) {
    const placement::StagePlacement& stage = pipeline.stages[i];
    const placement::StagePrediction& said = predicted.stages[i];
    for (size_t r = 0; r < stage.ranks.size(); ++r) {
      const placement::RankPlacement& rank = stage.ranks[r];
      table.AddRow({absl::StrCat(i), absl::StrCat(r), OneLine(rank.device), Layers(stage),
                    FormatBytes(rank.weight_bytes), FormatBytes(rank.kv_bytes),
                    kv_tokens > 0 ? FormatBytes(rank.kv_bytes / kv_tokens) : "-",
                    FormatBytes(rank.activation_bytes), FormatBytes(rank.peak_bytes()),
                    FormatBytes(rank.budget_bytes),
                    FormatBytes(rank.budget_bytes - rank.peak_bytes()),
                    predicted.known ? FormatSeconds(said.seconds) : "-",
                    BytesPerToken(said.hop_bytes_per_token),
                    BytesPerToken(said.collective_bytes_per_token)});
    }
  }
  return table.ToString();
}

std::string PredictionText(const PlanReport& report) {
  const placement::PlacementPrediction& first = report.predictions.front();
  if (!first.known) {
    return "\nNo times: give speeds as 4x24GiB@936GB/s@71Tflop/s, and --link.\n";
  }
  double all = 0;
  for (const placement::PlacementPrediction& one : report.predictions) all += one.tokens_per_second;
  std::string text = absl::StrCat(
      "\npredicted: ", FormatSeconds(first.step_seconds), " per token of one sequence (",
      Rate(1 / first.step_seconds), " tokens/s), ", Rate(all), " tokens/s when all decode (",
      absl::StrFormat("%.0f", first.rows), first.rows < 1.5 ? " row" : " rows", " in a step, ",
      FormatCount(static_cast<int64_t>(first.depth)), " tokens each), ",
      Rate(first.prefill_tokens_per_second), " tokens/s of a prompt\n");
  if (first.link_assumed) {
    absl::StrAppend(&text, "links taken for 10 Gbit/s and 50 us; --link says what they are\n");
  }
  return text;
}

std::string WhyNot(const PlanReport& report, const placement::LayoutTried& one) {
  if (!one.fits) {
    return absl::StrCat("lacks ", FormatCount(one.lacking_bytes), " bytes on ",
                        OneLine(one.lacking_device));
  }
  const double share = one.tokens_per_second / report.plan.chosen.tokens_per_second;
  if (share >= 1) return "no faster by 3 %, and more to run";
  return absl::StrFormat("%.0f %% of its speed", share * 100);
}

std::string RejectedText(const PlanReport& report) {
  const std::vector<placement::LayoutTried>& rejected = report.plan.rejected;
  if (rejected.empty()) return "";
  Table table(
      {{"rejected", Align::kLeft}, {"devices", Align::kLeft}, {"KV room"}, {"why", Align::kLeft}});
  for (size_t i = 0; i < std::min(rejected.size(), kRejectedShown); ++i) {
    const placement::LayoutTried& one = rejected[i];
    table.AddRow({placement::DescribeLayout(one.layout),
                  one.largest_first ? "largest first" : "as given",
                  one.fits ? FormatCount(one.kv_tokens) : "-", WhyNot(report, one)});
  }
  std::string text = absl::StrCat("\n", table.ToString());
  if (rejected.size() > kRejectedShown) {
    absl::StrAppend(&text, "and ", rejected.size() - kRejectedShown, " more; --json has all\n");
  }
  return text;
}

Json RankToJson(const placement::RankPlacement& rank) {
  return {{"device", rank.device},
          {"device_index", rank.device_index},
          {"device_kind", rank.kind == DeviceKind::kCuda ? "cuda" : "cpu"},
          {"budget_bytes", rank.budget_bytes},
          {"weight_bytes", rank.weight_bytes},
          {"kv_bytes", rank.kv_bytes},
          {"activation_bytes", rank.activation_bytes},
          {"peak_bytes", rank.peak_bytes()}};
}

Json PipelineToJson(const placement::Placement& pipeline,
                    const placement::PlacementPrediction& predicted) {
  Json stages = Json::array();
  for (size_t i = 0; i < pipeline.stages.size(); ++i) {
    const placement::StagePlacement& stage = pipeline.stages[i];
    const placement::StagePrediction& said = predicted.stages[i];
    Json ranks = Json::array();
    for (const placement::RankPlacement& rank : stage.ranks) ranks.push_back(RankToJson(rank));
    Json json = {{"stage", i},
                 {"first_layer", stage.first_layer},
                 {"num_layers", stage.num_layers},
                 {"has_embedding", stage.has_embedding},
                 {"has_head", stage.has_head},
                 {"hop_bytes_per_token", said.hop_bytes_per_token},
                 {"collective_bytes_per_token", said.collective_bytes_per_token},
                 {"ranks", std::move(ranks)}};
    if (predicted.known) {
      json["step_seconds"] = said.seconds;
      json["prefill_step_seconds"] = said.prefill_seconds;
    }
    stages.push_back(std::move(json));
  }
  Json json = {{"block_size", pipeline.block_size},
               {"num_blocks", pipeline.num_blocks},
               {"kv_tokens", pipeline.kv_tokens()},
               {"stages", std::move(stages)}};
  if (!predicted.known) return json;
  json["predicted"] = {{"rows", predicted.rows},
                       {"depth", predicted.depth},
                       {"step_seconds", predicted.step_seconds},
                       {"tokens_per_second", predicted.tokens_per_second},
                       {"prefill_tokens_per_second", predicted.prefill_tokens_per_second},
                       {"link_assumed", predicted.link_assumed}};
  return json;
}

Json TriedToJson(const placement::LayoutTried& one) {
  Json json = {{"stages", one.layout.stages},
               {"ranks", one.layout.ranks},
               {"pipelines", one.layout.pipelines},
               {"largest_first", one.largest_first},
               {"fits", one.fits}};
  if (one.fits) {
    json["kv_tokens"] = one.kv_tokens;
    json["relative_tokens_per_second"] = one.tokens_per_second;
  } else {
    json["lacking_bytes"] = one.lacking_bytes;
    json["lacking_device"] = one.lacking_device;
  }
  return json;
}

}  // namespace

std::string RenderPlan(const PlanReport& report) {
  const model::ModelConfig& model = report.model;
  const placement::ClusterPlan& plan = report.plan;
  std::string out =
      absl::StrCat(OneLine(model.architecture), ", ", model.num_layers, " layers, hidden ",
                   model.hidden_size, ", ", std::string(DTypeName(model.dtype)), ", context ",
                   FormatCount(model.max_position_embeddings), " tokens\n",
                   placement::DescribeLayout(plan.chosen.layout), "\n");
  const size_t shown = std::min(plan.pipelines.size(), kPipelinesShown);
  for (size_t i = 0; i < shown; ++i) {
    if (plan.pipelines.size() > 1) absl::StrAppend(&out, "\npipeline ", i, ":");
    absl::StrAppend(&out, "\n", PipelineTable(plan.pipelines[i], report.predictions[i]));
  }
  if (plan.pipelines.size() > shown) {
    absl::StrAppend(&out, "and ", plan.pipelines.size() - shown,
                    " more pipelines; --json has all\n");
  }
  const placement::Placement& first = plan.pipelines.front();
  absl::StrAppend(&out, "\nKV room: ", FormatCount(first.kv_tokens()), " tokens (",
                  FormatCount(first.num_blocks), " blocks of ", first.block_size,
                  " on every stage), ", FormatBytes(KvBytesPerToken(first)),
                  " a token over all devices");
  if (plan.pipelines.size() > 1) {
    absl::StrAppend(&out, " in pipeline 0, ", FormatCount(plan.chosen.kv_tokens), " in all");
  }
  absl::StrAppend(&out, "\n", PredictionText(report), RejectedText(report));
  for (const std::string& note : report.notes) {
    absl::StrAppend(&out, "\nnote: ", OneLine(note), "\n");
  }
  return out;
}

std::string PlanToJson(const PlanReport& report) {
  Json pipelines = Json::array();
  for (size_t i = 0; i < report.plan.pipelines.size(); ++i) {
    pipelines.push_back(PipelineToJson(report.plan.pipelines[i], report.predictions[i]));
  }
  Json rejected = Json::array();
  for (const placement::LayoutTried& one : report.plan.rejected)
    rejected.push_back(TriedToJson(one));
  const placement::Layout& layout = report.plan.chosen.layout;
  const Json json = {
      {"architecture", report.model.architecture},
      {"num_layers", report.model.num_layers},
      {"dtype", std::string(DTypeName(report.model.dtype))},
      {"context_length", report.model.max_position_embeddings},
      {"layout",
       {{"stages", layout.stages}, {"ranks", layout.ranks}, {"pipelines", layout.pipelines}}},
      {"kv_tokens", report.plan.chosen.kv_tokens},
      {"pipelines", std::move(pipelines)},
      {"rejected", std::move(rejected)},
      {"notes", report.notes}};
  // Names come from a file: bytes that are not UTF-8 are replaced, which never throws.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tutti::client
