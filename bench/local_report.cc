// The report of `tutti-bench local`.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/local.h"
#include "client/format.h"

namespace tutti::bench {
namespace {

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string Percent(double part, double whole) {
  return whole > 0 ? absl::StrFormat("%.0f %%", 100 * part / whole) : "-";
}

std::string Giga(double value, const char* unit) {
  return absl::StrFormat("%.1f G%s", value / 1e9, unit);
}

}  // namespace

std::string RenderLocalBench(const LocalBenchReport& report) {
  const LocalBenchOptions& options = report.options;
  std::string out = absl::StrCat(
      client::OneLine(options.model), ": ", options.device, " (", report.numerics_class, "), ",
      options.threads, " threads, batch ", options.load.batch, ", median of ", options.runs,
      " runs\n", report.kernels.empty() ? "" : absl::StrCat("kernels: ", report.kernels, "\n"),
      "loaded in ", client::FormatSeconds(report.load_seconds), ": weights ",
      FormatBytes(report.weight_bytes), ", KV ", FormatBytes(report.kv_bytes), ", activations ",
      FormatBytes(report.activation_bytes), "\n\n");
  using Align = client::Table::Align;
  client::Table table(
      {{"", Align::kLeft}, {"tokens"}, {"tokens/s"}, {"used"}, {"machine"}, {"share"}});
  table.AddRow({"prefill",
                client::FormatCount(int64_t{options.load.prompt_tokens} * options.load.batch),
                absl::StrFormat("%.1f", report.prefill_tokens_per_second),
                Giga(report.prefill_flops_per_second, "FLOP/s"),
                Giga(report.machine_flops_per_second, "FLOP/s"),
                Percent(report.prefill_flops_per_second, report.machine_flops_per_second)});
  const double decode_tokens = report.decode_tokens_per_second;
  const std::string tokens =
      client::FormatCount(int64_t{options.load.output_tokens - 1} * options.load.batch);
  table.AddRow({"decode", tokens, absl::StrFormat("%.1f", decode_tokens),
                Giga(report.decode_bytes_per_second, "B/s"),
                Giga(report.machine_read_bytes_per_second, "B/s"),
                Percent(report.decode_bytes_per_second, report.machine_read_bytes_per_second)});
  table.AddRow({"", "", "", Giga(report.decode_flops_per_second, "FLOP/s"),
                Giga(report.machine_flops_per_second, "FLOP/s"),
                Percent(report.decode_flops_per_second, report.machine_flops_per_second)});
  if (report.machine_best_flops_per_second > report.machine_flops_per_second) {
    table.AddRow({"", "", "", "in another class",
                  Giga(report.machine_best_flops_per_second, "FLOP/s"),
                  Percent(report.prefill_flops_per_second, report.machine_best_flops_per_second)});
  }
  absl::StrAppend(&out, table.ToString(), "\none decode step reads ",
                  FormatBytes(report.weight_bytes_per_step), " of weights and ",
                  FormatBytes(report.kv_bytes_per_step), " of K/V\n");
  const kernels::LaunchCounts& launches = report.launches;
  if (launches.kernels > 0) {
    absl::StrAppend(&out, client::FormatCount(launches.kernels), " kernels, ",
                    Percent(static_cast<double>(launches.kernels_by_graphs),
                            static_cast<double>(launches.kernels)),
                    " of them started by ", launches.graphs_made, " CUDA graphs\n");
  }
  return out;
}

std::string LocalBenchToJson(const LocalBenchReport& report) {
  const LocalBenchOptions& options = report.options;
  const nlohmann::ordered_json json = {
      {"model", options.model},
      {"device", options.device},
      {"numerics_class", report.numerics_class},
      {"threads", options.threads},
      {"kernels_tuned", report.kernels},
      {"cuda_graphs", options.cuda_graphs},
      {"cuda_early_kernels", options.cuda_early_kernels},
      {"prompt_tokens", options.load.prompt_tokens},
      {"output_tokens", options.load.output_tokens},
      {"batch", options.load.batch},
      {"temperature", options.load.temperature},
      {"chunk_tokens", options.chunk_tokens},
      {"runs", options.runs},
      {"load_seconds", report.load_seconds},
      {"kernels", report.launches.kernels},
      {"kernels_by_graphs", report.launches.kernels_by_graphs},
      {"graphs_made", report.launches.graphs_made},
      {"graph_bytes", report.launches.graph_bytes},
      {"graph_error", report.launches.graph_error},
      {"weight_bytes", report.weight_bytes},
      {"kv_bytes", report.kv_bytes},
      {"activation_bytes", report.activation_bytes},
      {"prefill_tokens_per_second", report.prefill_tokens_per_second},
      {"decode_tokens_per_second", report.decode_tokens_per_second},
      {"weight_bytes_per_step", report.weight_bytes_per_step},
      {"kv_bytes_per_step", report.kv_bytes_per_step},
      {"decode_bytes_per_second", report.decode_bytes_per_second},
      {"decode_flops_per_second", report.decode_flops_per_second},
      {"machine_read_bytes_per_second", report.machine_read_bytes_per_second},
      // Of the nearer roof.
      {"decode_share",
       std::max(Share(report.decode_bytes_per_second, report.machine_read_bytes_per_second),
                Share(report.decode_flops_per_second, report.machine_flops_per_second))},
      {"prefill_flops_per_second", report.prefill_flops_per_second},
      {"machine_flops_per_second", report.machine_flops_per_second},
      {"prefill_share", Share(report.prefill_flops_per_second, report.machine_flops_per_second)},
      {"machine_best_flops_per_second", report.machine_best_flops_per_second},
      {"prefill_share_of_best",
       Share(report.prefill_flops_per_second, report.machine_best_flops_per_second)}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tutti::bench
