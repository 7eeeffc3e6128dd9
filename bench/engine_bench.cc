#include "bench/engine_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/synthetic_cluster.h"
#include "coordinator/metrics/status_metrics.h"

namespace tutti::bench {
namespace {

constexpr int kScrapes = 51;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The cost of a scrape, now.
void Scrape(const SyntheticCluster& cluster, EngineBenchRow* row) {
  std::vector<double> status_us, text_us;
  for (int i = 0; i < kScrapes; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    v1::GetStatusResponse status;
    cluster.engine().FillStatus(cluster.now(), &status);
    const auto middle = std::chrono::steady_clock::now();
    metrics::Exposition text;
    coordinator::WriteStatus(status, {}, &text);
    cluster.step_metrics().Write(&text);
    coordinator::WriteVllmStatus(status, &text);
    cluster.step_metrics().WriteVllm("m", &text);
    (void)text.Release();
    const auto end = std::chrono::steady_clock::now();
    status_us.push_back(Seconds(middle - begin) * 1e6);
    text_us.push_back(Seconds(end - middle) * 1e6);
  }
  row->status_us = Median(std::move(status_us));
  row->text_us = Median(std::move(text_us));
}

}  // namespace

EngineBenchRow MeasureEngine(const EngineBenchOptions& options, int32_t pipelines,
                             int32_t sequences) {
  SyntheticCluster cluster({.pipelines = pipelines,
                            .sequences = sequences,
                            .stages = options.stages,
                            .running = options.running,
                            .prompt_tokens = options.prompt_tokens,
                            .output_tokens = options.output_tokens,
                            .guesses = options.guesses});
  const double burst_seconds = cluster.Arrive(cluster.NewRequests(sequences));
  cluster.WarmUp();
  EngineBenchRow row{
      .pipelines = pipelines, .sequences = sequences, .burst_us = burst_seconds * 1e6 / sequences};
  double result_seconds = 0;
  double plan_seconds = 0;
  double plan_bytes = 0;
  const auto begin = std::chrono::steady_clock::now();
  // The start and the prompt have had their part of the room.
  const int64_t most = int64_t{SyntheticCluster::TokensEach(sequences)} / 4 * sequences;
  while ((options.output_tokens > 0 || row.tokens < most) &&
         Seconds(std::chrono::steady_clock::now() - begin) < options.seconds) {
    const SyntheticCluster::Turn turn = cluster.DoStep();
    ++row.steps;
    row.tokens += turn.tokens;
    result_seconds += turn.result_seconds;
    plan_seconds += turn.plan_seconds;
    plan_bytes += static_cast<double>(turn.plan_bytes);
  }
  const auto tokens = static_cast<double>(row.tokens);
  row.result_us = result_seconds * 1e6 / tokens;
  row.plan_us = plan_seconds * 1e6 / tokens;
  row.step_us = (result_seconds + plan_seconds) * 1e6 / static_cast<double>(row.steps);
  row.plan_bytes = plan_bytes / tokens;
  Scrape(cluster, &row);
  return row;
}

namespace {

std::string RowJson(const EngineBenchRow& row) {
  return absl::StrFormat(
      "{\"pipelines\": %d, \"sequences\": %d, \"burst_us\": %.3f, \"steps\": %d, "
      "\"tokens\": %d, \"result_us\": %.3f, \"plan_us\": %.3f, \"token_us\": %.3f, "
      "\"step_us\": %.1f, \"share\": %.3f, \"plan_bytes\": %.1f, \"status_us\": %.0f, "
      "\"text_us\": %.0f}",
      row.pipelines, row.sequences, row.burst_us, row.steps, row.tokens, row.result_us, row.plan_us,
      row.token_us(), row.step_us, row.share(), row.plan_bytes, row.status_us, row.text_us);
}

void PrintRow(const EngineBenchRow& row) {
  std::printf("%9d %10d %12.3f %9ld %14.3f %14.3f %14.3f %12.1f %6.1f%% %14.1f %10.0f %10.0f\n",
              row.pipelines, row.sequences, row.burst_us, static_cast<long>(row.steps),
              row.result_us, row.plan_us, row.token_us(), row.step_us, 100 * row.share(),
              row.plan_bytes, row.status_us, row.text_us);
}

}  // namespace

int RunEngineBench(const EngineBenchOptions& options) {
  for (const int32_t sequences : options.sequences) {
    if (sequences < 1 || sequences > 50'000) {
      std::fprintf(stderr, "--sequences %d: must be 1 to 50000\n", sequences);
      return 2;
    }
  }
  if (options.running < 0 || options.output_tokens < 0 || options.output_tokens > 4000) {
    std::fprintf(stderr, "--running must be 0 or more, --output-tokens 0 to 4000\n");
    return 2;
  }
  if (options.stages < 1 || options.stages > 64 || options.prompt_tokens < 1 ||
      options.prompt_tokens > 4000 || !(options.seconds > 0)) {
    std::fprintf(stderr,
                 "--stages must be 1 to 64, --prompt-tokens 1 to 4000, --seconds above 0\n");
    return 2;
  }
  for (const int32_t pipelines : options.pipelines) {
    if (pipelines < 1 || pipelines > 1024) {
      std::fprintf(stderr, "--pipelines %d: must be 1 to 1024\n", pipelines);
      return 2;
    }
  }
  if (!options.json) {
    std::printf(
        "engine, %d stages, %s; share: of the engine's thread, when every pipeline does a step "
        "each 10 ms; status and text: of a scrape, by the engine's thread and by another\n\n"
        "%9s %10s %12s %9s %14s %14s %14s %12s %7s %14s %10s %10s\n",
        options.stages,
        options.running > 0
            ? absl::StrCat("at most ", options.running, " of each pipeline generate").c_str()
            : "every sequence generates",
        "pipelines", "sequences", "burst us/req", "steps", "result us/tok", "plan us/tok",
        "sum us/tok", "us/step", "share", "plan bytes/tok", "status us", "text us");
  }
  std::string json;
  for (const int32_t pipelines : options.pipelines) {
    for (const int32_t sequences : options.sequences) {
      const EngineBenchRow row = MeasureEngine(options, pipelines, sequences);
      if (options.json) {
        absl::StrAppend(&json, json.empty() ? "" : ", ", RowJson(row));
      } else {
        PrintRow(row);
      }
    }
  }
  if (options.json) {
    std::printf("{\"stages\": %d, \"rows\": [%s]}\n", options.stages, json.c_str());
  }
  return 0;
}

}  // namespace tutti::bench
