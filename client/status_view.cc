#include "client/status_view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/epochs.h"
#include "client/format.h"
#include "client/gpu_view.h"

namespace tutti::client {
namespace {

// The memory in use, with the plan's figure beside it when they differ to the eye.
std::string HeldOfPlanned(int64_t held, int64_t planned) {
  if (held == 0 && planned > 0) return absl::StrCat("(", FormatBytes(planned), ")");
  const std::string text = FormatBytes(held);
  if (planned == 0 || FormatBytes(planned) == text) return text;
  return absl::StrCat(text, " (", FormatBytes(planned), ")");
}

// "1.2 ms (0.9 ms)": a step as it is lately, and as predicted.
std::string StepOfPlanned(const v1::StageStatus& stage) {
  if (stage.step_seconds() <= 0) return "-";
  const std::string text = FormatSeconds(stage.step_seconds());
  if (stage.predicted_step_seconds() <= 0) return text;
  return absl::StrCat(text, " (", FormatSeconds(stage.predicted_step_seconds()), ")");
}

// "2 pipelines of 3 stages of 4 ranks", as `tutti plan` says it.
std::string LayoutText(const v1::LayoutTried& tried) {
  const auto count = [](int32_t number, const char* what) {
    return absl::StrCat(number, " ", what, number == 1 ? "" : "s");
  };
  std::string text = count(tried.stages(), "stage");
  if (tried.pipelines() != 1)
    text = absl::StrCat(count(tried.pipelines(), "pipeline"), " of ", text);
  if (tried.ranks() != 1) absl::StrAppend(&text, " of ", count(tried.ranks(), "rank"));
  return absl::StrCat(text, tried.largest_first() ? ", quick and large workers first" : "");
}

void AppendLayout(const v1::LayoutChoice& layout, std::string* out) {
  constexpr int kRejectedShown = 3;
  absl::StrAppend(out, "layout: ", LayoutText(layout.chosen()), ", chosen for ", layout.workers(),
                  layout.workers() == 1 ? " worker" : " workers",
                  layout.speeds_known() ? "" : " of unknown speed", "\n");
  for (int i = 0; i < std::min(layout.rejected_size(), kRejectedShown); ++i) {
    const v1::LayoutTried& rejected = layout.rejected(i);
    absl::StrAppend(out, "  rejected: ", LayoutText(rejected), " (",
                    OneLine(rejected.why_rejected()), ")\n");
  }
  if (layout.rejected_size() > kRejectedShown) {
    absl::StrAppend(out, "  and ", layout.rejected_size() - kRejectedShown,
                    " more; --json has all\n");
  }
}

// "w1 (60 %), w0 (41 %)": whose speeds, by which layers were given, were measured beside others.
std::string MeasuredBesideOthers(const v1::GetStatusResponse& status) {
  std::string text;
  const auto add = [&text](const v1::WorkerStatus& worker) {
    if (worker.speed_others_share() <= 0) return;
    absl::StrAppendFormat(&text, "%s%s (%.0f %%)", text.empty() ? "" : ", ",
                          OneLine(worker.worker_id()), worker.speed_others_share() * 100);
  };
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    for (const v1::StageStatus& stage : pipeline.stages()) add(stage.worker());
  }
  for (const v1::WorkerStatus& worker : status.idle_workers()) add(worker);
  return text;
}

void AppendSpeeds(const v1::GetStatusResponse& status, const Style& style, std::string* out) {
  const std::string who = MeasuredBesideOthers(status);
  if (who.empty()) return;
  absl::StrAppend(out, style.Yellow("speeds:"),
                  " measured while others had the processors, and layers may go by them: ", who,
                  "; start these workers again in quiet, or tell them --speed\n");
}

void AppendNumerics(const v1::NumericsChoice& numerics, std::string* out) {
  absl::StrAppend(out, "numerics: ", OneLine(numerics.numerics_class()), ", ",
                  OneLine(numerics.why()), numerics.settled() ? "" : " (not settled yet)", "\n");
  if (!numerics.cost().empty()) absl::StrAppend(out, "  ", OneLine(numerics.cost()), "\n");
}

std::string LayerRange(int32_t first, int32_t count) {
  if (count == 0) return "none";
  return count == 1 ? absl::StrCat(first) : absl::StrCat(first, "-", first + count - 1);
}

std::string Layers(const v1::StageStatus& stage) {
  return absl::StrCat(stage.has_embedding() ? "embedding + " : "",
                      LayerRange(stage.first_layer(), stage.num_layers()),
                      stage.has_head() ? " + head" : "");
}

std::string HitShare(const v1::PipelineStatus& pipeline) {
  const auto asked = static_cast<double>(pipeline.prefix_lookup_tokens());
  if (asked == 0) return "none asked for";
  return absl::StrCat(FormatShare(static_cast<double>(pipeline.prefix_hit_tokens()) / asked),
                      " of ", FormatCount(static_cast<int64_t>(pipeline.prefix_lookup_tokens())),
                      " tokens");
}

std::string ColouredState(const v1::PipelineStatus& pipeline, const Style& style) {
  const std::string state = OneLine(pipeline.state());
  return state == "serving" ? style.Green(state) : style.Yellow(state);
}

// The number of links that stand, and each that does not.
void AppendLinks(const v1::PipelineStatus& pipeline, const Style& style, std::string* out) {
  if (pipeline.links().empty()) return;
  const auto up = std::count_if(pipeline.links().begin(), pipeline.links().end(),
                                [](const v1::LinkStatus& link) { return link.up(); });
  absl::StrAppend(out, "  links: ", up, " of ", pipeline.links_size(), " up\n");
  for (const v1::LinkStatus& link : pipeline.links()) {
    if (link.up()) continue;
    absl::StrAppend(out, "    ", style.Red("down:"), " ", OneLine(link.purpose()), " link from ",
                    OneLine(link.from()), " to ", OneLine(link.to()),
                    link.error().empty() ? "" : absl::StrCat(": ", OneLine(link.error())), "\n");
  }
}

// The rows that stages keep for those after them, and how many tokens were computed from such.
void AppendKept(const v1::PipelineStatus& pipeline, std::string* out) {
  int64_t kept = 0;
  for (const v1::StageStatus& stage : pipeline.stages()) kept += stage.predicted().kept_rows();
  if (kept == 0 && pipeline.rebuilt_tokens() == 0) return;
  absl::StrAppend(out, "  rows kept for lost stages: room for ", FormatBytes(kept), "; ",
                  FormatCount(static_cast<int64_t>(pipeline.rebuilt_tokens())),
                  " tokens rebuilt\n");
}

// "step times: 1 row 51 ms, 64 rows 240 ms": as learnt.
void AppendStepTimes(const v1::PipelineStatus& pipeline, std::string* out) {
  if (pipeline.step_seconds().empty()) return;
  const std::map<int32_t, double> by_rows(pipeline.step_seconds().begin(),
                                          pipeline.step_seconds().end());
  const char* between = "  step times: ";
  for (const auto& [rows, seconds] : by_rows) {
    absl::StrAppend(out, between, rows, rows == 1 ? " row " : " rows ", FormatSeconds(seconds));
    between = ", ";
  }
  absl::StrAppend(out, "; fewer rows of prompts for answers' sake in ",
                  FormatCount(static_cast<int64_t>(pipeline.bounded_steps())), " steps\n");
}

// "guesses: 1,498 of 2,231 right (67 %): text 900 of 1,200, draft 598 of 1,031".
void AppendGuesses(const v1::PipelineStatus& pipeline, std::string* out) {
  if (pipeline.guessed_tokens() == 0) return;
  const auto share = [](uint64_t right, uint64_t all) {
    return absl::StrCat(FormatCount(static_cast<int64_t>(right)), " of ",
                        FormatCount(static_cast<int64_t>(all)));
  };
  const uint64_t right = std::accumulate(pipeline.guesses_right().begin(),
                                         pipeline.guesses_right().end(), uint64_t{0});
  absl::StrAppend(
      out, "  guesses: ", share(right, pipeline.guessed_tokens()), " right (",
      FormatShare(static_cast<double>(right) / static_cast<double>(pipeline.guessed_tokens())),
      ")");
  const char* between = ": ";
  for (const v1::GuessSourceStatus& source : pipeline.guess_sources()) {
    if (source.guessed_tokens() == 0) continue;
    absl::StrAppend(out, between, OneLine(source.source()), " ",
                    share(source.right_tokens(), source.guessed_tokens()));
    between = ", ";
  }
  absl::StrAppend(out, "\n");
}

void AppendPipeline(const v1::PipelineStatus& pipeline, const Style& style, std::string* out) {
  absl::StrAppend(out, "\npipeline ", pipeline.pipeline(), ": ", ColouredState(pipeline, style),
                  ", ", pipeline.running(), " running, ", pipeline.waiting(), " waiting");
  absl::StrAppend(
      out, "\n  KV cache: ", FormatCount(pipeline.blocks_in_use()), " of ",
      FormatCount(pipeline.blocks_total()), " blocks of ", pipeline.block_size(), " in use, ",
      FormatCount(pipeline.blocks_cached()), " cached (room for ",
      FormatCount(pipeline.kv_tokens_total()), " tokens); prefix hits: ", HitShare(pipeline), ", ",
      FormatCount(static_cast<int64_t>(pipeline.evictions())), " evictions\n  ",
      FormatCount(pipeline.backlog_tokens()), " prompt tokens to compute, ",
      FormatCount(static_cast<int64_t>(pipeline.preemptions())),
      " preemptions; steps: ", FormatCount(static_cast<int64_t>(pipeline.steps())), ", ",
      pipeline.steps_in_flight(), " in flight\n", RenderDeviceMap(pipeline, /*activity=*/true));
  AppendStepTimes(pipeline, out);
  AppendGuesses(pipeline, out);
  AppendKept(pipeline, out);
  AppendLinks(pipeline, style, out);
  for (const v1::StageStatus& stage : pipeline.stages()) {
    if (stage.fetch().empty()) continue;
    absl::StrAppend(out, "  ", WorkerName(stage), " ", OneLine(stage.fetch()), "\n");
  }
  if (!pipeline.straggler().empty()) {
    absl::StrAppend(out, "  ", style.Red("slow:"), " ", OneLine(pipeline.straggler()), "\n");
  }
  absl::StrAppend(out, "  epoch ", EpochName(Epoch(pipeline.epoch())));
  if (!pipeline.numerics_class().empty()) {
    absl::StrAppend(out, ", numerics ", OneLine(pipeline.numerics_class()));
  }
  absl::StrAppend(out, "\n");
}

// The latest ends of pipelines that streams outlived; 0 ms: not yet.
void AppendRecoveries(const v1::GetStatusResponse& status, std::string* out) {
  constexpr int kShown = 3;
  for (int i = 0; i < std::min(status.recoveries_size(), kShown); ++i) {
    const v1::Recovery& recovery = status.recoveries(i);
    absl::StrAppend(
        out, i == 0 ? "\n" : "", "recovery ", FormatSeconds(recovery.seconds_ago()),
        " ago: ", recovery.sequences(), " sequences of pipeline ", recovery.pipeline(),
        recovery.recovered_ms() > 0
            ? absl::StrCat(" went on after ", FormatSeconds(recovery.recovered_ms() / 1000),
                           " (serving after ", FormatSeconds(recovery.serving_ms() / 1000), ")")
            : " are still to go on",
        ": ", OneLine(recovery.cause()), "\n");
  }
  if (status.recoveries_size() > kShown) {
    absl::StrAppend(out, "and ", status.recoveries_size() - kShown, " more; --json has all\n");
  }
}

void AppendCounters(const v1::RequestCounters& requests, std::string* out) {
  const auto count = [](uint64_t n) { return FormatCount(static_cast<int64_t>(n)); };
  absl::StrAppend(out, "\nrequests: ", count(requests.accepted()), " accepted, ",
                  count(requests.finished()), " finished, ", count(requests.cancelled()),
                  " cancelled, ", count(requests.deadline_exceeded()), " past their deadline, ",
                  count(requests.failed()), " failed, ", count(requests.refused()), " refused, ",
                  count(requests.invalid()), " invalid\n");
  absl::StrAppend(out, "tokens: ", count(requests.prompt_tokens()), " of prompts, ",
                  count(requests.generated_tokens()), " generated; ", count(requests.preemptions()),
                  " preemptions, ", count(requests.recovered()), " recovered, ",
                  count(requests.stale_frames()), " stale frames\n");
}

}  // namespace

std::string WorkerName(const v1::StageStatus& stage) {
  return stage.worker().worker_id().empty() ? "-" : OneLine(stage.worker().worker_id());
}

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
  if (activity) {
    columns.insert(
        columns.end(),
        {{"step (plan)"}, {"computing"}, {"waiting"}, {"bubble"}, {"link B/token"}, {"link sent"}});
  }
  Table table(columns);
  for (const v1::StageStatus& stage : pipeline.stages()) {
    std::vector<std::string> cells = {
        stage.num_ranks() > 1 ? absl::StrCat(stage.stage(), " rank ", stage.rank())
                              : absl::StrCat(stage.stage()),
        WorkerName(stage),
        OneLine(stage.worker().device()),
        Layers(stage),
        HeldOfPlanned(stage.actual().weights(), stage.predicted().weights()),
        HeldOfPlanned(stage.actual().kv(), stage.predicted().kv()),
        stage.actual().resident() > 0 ? FormatBytes(stage.actual().resident()) : "-",
        stage.predicted().budget() > 0 ? FormatBytes(stage.predicted().budget()) : "-"};
    if (activity) {
      const bool last = stage.has_head();
      const auto link_bytes = std::llround(stage.activation_bytes_per_token());
      cells.push_back(StepOfPlanned(stage));
      cells.push_back(FormatShare(stage.compute_share()));
      cells.push_back(FormatShare(stage.wait_share() + stage.exchange_wait_share()));
      cells.push_back(FormatShare(stage.bubble_share()));
      cells.push_back(last || stage.rows() == 0 ? "-" : FormatCount(link_bytes));
      cells.push_back(last ? "-" : FormatBytes(stage.activation_bytes_out()));
    }
    table.AddRow(std::move(cells));
  }
  return table.ToString(2, kScreenColumns);
}

std::optional<double> TokensPerSecond(const v1::GetStatusResponse& before,
                                      const v1::GetStatusResponse& after) {
  const double seconds = after.uptime_seconds() - before.uptime_seconds();
  const auto tokens = static_cast<double>(after.requests().generated_tokens()) -
                      static_cast<double>(before.requests().generated_tokens());
  if (seconds <= 0 || tokens < 0) return std::nullopt;
  return tokens / seconds;
}

int64_t RunningIn(const v1::GetStatusResponse& status) {
  int64_t running = 0;
  for (const v1::PipelineStatus& pipeline : status.pipelines()) running += pipeline.running();
  return running;
}

std::string RenderStatus(const v1::GetStatusResponse& status, const Style& style,
                         std::optional<double> tokens_per_second) {
  std::string out =
      absl::StrCat(style.Bold(OneLine(status.model())), ": ",
                   status.serving() ? style.Green("serving") : style.Red("not serving"));
  if (!status.serving() && !status.why_not_serving().empty()) {
    absl::StrAppend(&out, " (", OneLine(status.why_not_serving()), ")");
  }
  if (tokens_per_second.has_value()) {
    absl::StrAppendFormat(&out, ", %.1f tokens/s", *tokens_per_second);
  }
  absl::StrAppend(&out, ", ", FormatCount(RunningIn(status)), " running, up ",
                  FormatSeconds(status.uptime_seconds()), "\n");
  for (const v1::PipelineStatus& pipeline : status.pipelines()) {
    AppendPipeline(pipeline, style, &out);
  }
  absl::StrAppend(&out, RenderGpus(status));
  for (const v1::WorkerStatus& worker : status.idle_workers()) {
    absl::StrAppend(&out, "idle worker ", OneLine(worker.worker_id()), ": ",
                    OneLine(worker.device()), ", ", FormatBytes(worker.memory_bytes()),
                    worker.standby().empty() ? "" : absl::StrCat(", ", OneLine(worker.standby())),
                    worker.leaving() ? ", leaving" : "", "\n");
  }
  for (const v1::RefusedPeer& peer : status.refused_peers()) {
    absl::StrAppend(&out, "refused ", OneLine(peer.peer()),
                    peer.worker_id().empty() ? "" : absl::StrCat(" as ", OneLine(peer.worker_id())),
                    " ", FormatSeconds(peer.seconds_ago()), " ago",
                    peer.times() > 1 ? absl::StrCat(" (", peer.times(), " times)") : "", ": ",
                    OneLine(peer.reason()), "\n");
  }
  if (status.waiting() > 0) {
    absl::StrAppend(&out, "\n", FormatCount(status.waiting()),
                    " requests wait for room on any pipeline\n");
  }
  AppendRecoveries(status, &out);
  AppendCounters(status.requests(), &out);
  out += '\n';
  if (status.has_layout()) AppendLayout(status.layout(), &out);
  AppendSpeeds(status, style, &out);
  if (status.has_numerics()) AppendNumerics(status.numerics(), &out);
  absl::StrAppend(&out, "build ", OneLine(status.build()), ", fingerprint ",
                  OneLine(status.model_fingerprint()), "\n");
  return Wrap(out, kScreenColumns);
}

std::string RefusedText(const v1::RefusedPeer& peer) {
  std::string host = OneLine(peer.peer());
  if (host.find("unix:") != 0) host = host.substr(0, host.rfind(':'));
  return absl::StrCat("refused ", host,
                      peer.worker_id().empty() ? "" : " as " + OneLine(peer.worker_id()), ": ",
                      OneLine(peer.reason()));
}

std::string RenderHoldings(const v1::LookupPrefixResponse& response) {
  using Align = Table::Align;
  const std::string prompt =
      absl::StrCat("the prompt has ", FormatCount(response.prompt_tokens()), " tokens; ");
  if (response.holdings().empty()) return absl::StrCat(prompt, "no worker holds any of it\n");
  Table table({{"pipeline"},
               {"tokens"},
               {"stage"},
               {"worker", Align::kLeft},
               {"layers", Align::kLeft},
               {"KV"}});
  for (const v1::PrefixHolding& holding : response.holdings()) {
    for (const v1::ShardHolding& shard : holding.shards()) {
      table.AddRow({absl::StrCat(holding.pipeline()), FormatCount(holding.tokens()),
                    absl::StrCat(shard.stage()), OneLine(shard.worker_id()),
                    LayerRange(shard.first_layer(), shard.num_layers()),
                    FormatBytes(shard.kv_bytes())});
    }
  }
  return absl::StrCat(prompt, "held are, from its beginning:\n", table.ToString(0, kScreenColumns));
}

}  // namespace tutti::client
