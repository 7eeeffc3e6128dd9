#include "client/status_view.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/format.h"

namespace tutti {
namespace {

// What is held, with the plan's figure beside it when they differ to the eye.
std::string HeldOfPlanned(int64_t held, int64_t planned) {
  if (held == 0 && planned > 0) return absl::StrCat("(", FormatBytes(planned), ")");
  const std::string text = FormatBytes(held);
  if (planned == 0 || FormatBytes(planned) == text) return text;
  return absl::StrCat(text, " (", FormatBytes(planned), ")");
}

std::string Layers(const v1::StageStatus& stage) {
  std::string text = stage.has_embedding() ? "embedding + " : "";
  if (stage.num_layers() == 0) {
    absl::StrAppend(&text, "none");
  } else if (stage.num_layers() == 1) {
    absl::StrAppend(&text, stage.first_layer());
  } else {
    absl::StrAppend(&text, stage.first_layer(), "-", stage.first_layer() + stage.num_layers() - 1);
  }
  return text + (stage.has_head() ? " + head" : "");
}

std::string Share(double share) { return absl::StrFormat("%.0f %%", share * 100); }

std::string Name(const v1::StageStatus& stage) {
  return stage.worker().worker_id().empty() ? "-" : OneLine(stage.worker().worker_id());
}

std::string ColouredState(const v1::PipelineStatus& pipeline, const Style& style) {
  const std::string state = OneLine(pipeline.state());
  return state == "serving" ? style.Green(state) : style.Yellow(state);
}

void AppendPipeline(const v1::PipelineStatus& pipeline, const Style& style, std::string* out) {
  absl::StrAppend(out, "\npipeline ", pipeline.pipeline(), ": ", ColouredState(pipeline, style),
                  ", epoch ", pipeline.epoch());
  if (!pipeline.numerics_class().empty()) {
    absl::StrAppend(out, ", numerics ", OneLine(pipeline.numerics_class()));
  }
  absl::StrAppend(out, "\n  KV cache: ", FormatCount(pipeline.blocks_in_use()), " of ",
                  FormatCount(pipeline.blocks_total()), " blocks of ", pipeline.block_size(),
                  " in use (room for ", FormatCount(pipeline.kv_tokens_total()),
                  " tokens); sequences: ", pipeline.running(), " running, ", pipeline.waiting(),
                  " waiting; steps: ", FormatCount(static_cast<int64_t>(pipeline.steps())), ", ",
                  pipeline.steps_in_flight(), " in flight\n",
                  RenderDeviceMap(pipeline, /*activity=*/true));
}

void AppendCounters(const v1::RequestCounters& requests, std::string* out) {
  const auto count = [](uint64_t n) { return FormatCount(static_cast<int64_t>(n)); };
  absl::StrAppend(out, "\nrequests: ", count(requests.accepted()), " accepted, ",
                  count(requests.finished()), " finished, ", count(requests.cancelled()),
                  " cancelled, ", count(requests.failed()), " failed, ", count(requests.refused()),
                  " refused\n");
  absl::StrAppend(out, "tokens: ", count(requests.prompt_tokens()), " of prompts, ",
                  count(requests.generated_tokens()), " generated; ", count(requests.preemptions()),
                  " preemptions, ", count(requests.stale_frames()), " stale frames\n");
}

}  // namespace

std::string RenderDeviceMap(const v1::PipelineStatus& pipeline, bool activity) {
  using Align = Table::Align;
  std::vector<Table::Column> columns = {{"stage", Align::kLeft},
                                        {"worker", Align::kLeft},
                                        {"device", Align::kLeft},
                                        {"layers", Align::kLeft},
                                        {"weights (plan)"},
                                        {"KV (plan)"},
                                        {"resident"},
                                        {"budget"}};
  if (activity) columns.insert(columns.end(), {{"computing"}, {"waiting"}, {"link B/token"}});
  Table table(columns);
  for (const v1::StageStatus& stage : pipeline.stages()) {
    std::vector<std::string> cells = {
        absl::StrCat(stage.stage()),
        Name(stage),
        OneLine(stage.worker().device()),
        Layers(stage),
        HeldOfPlanned(stage.actual().weights(), stage.predicted().weights()),
        HeldOfPlanned(stage.actual().kv(), stage.predicted().kv()),
        stage.actual().resident() > 0 ? FormatBytes(stage.actual().resident()) : "-",
        stage.predicted().budget() > 0 ? FormatBytes(stage.predicted().budget()) : "-"};
    if (activity) {
      const bool last = stage.stage() + 1 == pipeline.stages_size();
      const auto link_bytes = std::llround(stage.activation_bytes_per_token());
      cells.push_back(Share(stage.compute_share()));
      cells.push_back(Share(stage.wait_share()));
      cells.push_back(last || stage.rows() == 0 ? "-" : FormatCount(link_bytes));
    }
    table.AddRow(std::move(cells));
  }
  return table.ToString(2);
}

std::string RenderStatus(const v1::GetStatusResponse& status, const Style& style) {
  std::string out =
      absl::StrCat(style.Bold(OneLine(status.model())), ": ",
                   status.serving() ? style.Green("serving") : style.Red("not serving"));
  if (!status.serving() && !status.why_not_serving().empty()) {
    absl::StrAppend(&out, " (", OneLine(status.why_not_serving()), ")");
  }
  absl::StrAppend(&out, ", up ", FormatSeconds(status.uptime_seconds()), ", build ",
                  OneLine(status.build()), ", fingerprint ", OneLine(status.model_fingerprint()),
                  "\n");
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    AppendPipeline(pipeline, style, &out);
  }
  for (const v1::WorkerStatus& worker : status.idle_workers()) {
    absl::StrAppend(&out, "idle worker ", OneLine(worker.worker_id()), ": ",
                    OneLine(worker.device()), ", ", FormatBytes(worker.memory_bytes()), "\n");
  }
  AppendCounters(status.requests(), &out);
  if (status.waiting() > 0) {
    absl::StrAppend(&out, FormatCount(status.waiting()), " wait for a pipeline with room\n");
  }
  return out;
}

std::string RenderProgress(const v1::GetStatusResponse& status) {
  std::string loading;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    for (const v1::StageStatus& stage : pipeline.stages()) {
      const bool done = stage.loaded_share() >= 1;
      absl::StrAppend(&loading, loading.empty() ? "loading: " : ", ", Name(stage), " ",
                      done ? "done" : Share(stage.loaded_share()));
      if (!done && stage.predicted().weights() > 0) {
        absl::StrAppend(&loading, " of ", FormatBytes(stage.predicted().weights()));
      }
    }
  }
  if (!loading.empty()) return loading;
  return status.why_not_serving().empty() ? "starting" : OneLine(status.why_not_serving());
}

std::string RenderMilestone(const v1::GetStatusResponse& status) {
  double share = 0;
  int stages = 0;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    for (const v1::StageStatus& stage : pipeline.stages()) {
      share += std::clamp(stage.loaded_share(), 0.0, 1.0);
      ++stages;
    }
  }
  if (stages == 0) return OneLine(status.why_not_serving());
  return absl::StrCat("quarter ", static_cast<int>(share / stages * 4));
}

}  // namespace tutti
