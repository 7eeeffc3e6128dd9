// tutti-bench local: the whole model as one stage in this process, without links or scheduler.
//
// It shows the speed of the forward pass itself, beside the most that this machine could do,
// probed in the same run: a speed alone says little on a host shared with others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"

namespace tutti::bench {

// What sequences that decode together are asked for.
struct LocalLoad {
  int prompt_tokens = 512;
  int output_tokens = 64;
  int batch = 1;          // sequences
  float temperature = 0;  // 0: the most likely token
};

// "2048,8,64" or "64,1,128,0.7": prompt tokens, sequences, output tokens, temperature.
// INVALID_ARGUMENT quotes the text.
absl::StatusOr<LocalLoad> ParseLocalLoad(const std::string& text);

struct LocalBenchOptions {
  std::string model;  // a folder with a checkpoint
  std::string device = "cpu";
  std::string numerics_class;  // "": the machine's best
  bool cuda_graphs = true;     // see kernels::BackendOptions::graphs
  bool cuda_early_kernels = true;
  bool tune = true;  // the kernels, as a worker does at start
  int threads = 0;   // 0: every CPU this process may use
  LocalLoad load;
  int chunk_tokens = 512;  // rows of a prompt in one step
  int runs = 3;
};

struct LocalBenchReport {
  LocalBenchOptions options;  // with its load
  std::string numerics_class;
  std::string kernels;  // the choices that were made for them; "": there are none
  double load_seconds = 0;
  kernels::LaunchCounts launches;  // of all runs, and of the loads before
  int64_t weight_bytes = 0;        // resident
  int64_t kv_bytes = 0;            // for the largest load
  int64_t activation_bytes = 0;

  // Medians over the runs. Prefill: from the first chunk to the first sampled token of every
  // sequence. Decode: the steps after that, each one token of every sequence.
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;

  // One decode step reads every matrix once, for any batch, and the K/V rows of its sequences.
  int64_t weight_bytes_per_step = 0;
  int64_t kv_bytes_per_step = 0;       // in the middle of the output
  double decode_bytes_per_second = 0;  // of both
  double decode_flops_per_second = 0;
  // Median of the probes between the steps; 0 of a GPU, which they say nothing about.
  double machine_read_bytes_per_second = 0;
  double prefill_flops_per_second = 0;
  // By the quickest instruction that gives this class's bits, and by the quickest of all.
  double machine_flops_per_second = 0;
  double machine_best_flops_per_second = 0;
};

// Measures each of the loads on the model, loaded once, and gives `said` its report before the next
// begins.  REQUIRES: there are loads. INVALID_ARGUMENT names the option; else the errors of loading
// and running a shard, and those of `said`.
absl::Status RunLocalBench(const LocalBenchOptions& options, const std::vector<LocalLoad>& loads,
                           const std::function<absl::Status(const LocalBenchReport&)>& said);

std::string RenderLocalBench(const LocalBenchReport& report);
// In one line.
std::string LocalBenchToJson(const LocalBenchReport& report);

}  // namespace tutti::bench
