// tutti-bench directory: the hits of prefix reuse in a recorded load, replayed in virtual time.
//
// Requests arrive when the trace says. A pipeline computes the tokens it does not hold, one prompt
// after the other; a request then generates, and holds its blocks until it ends. Which pipeline a
// request goes to is decided as the coordinator does. The hits are compared with the best
// possible: every block that any earlier request had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trace.h"
#include "bench/trace_cache.h"

namespace tutti::bench {

struct DirectoryBenchOptions {
  std::string trace;
  bool skip_broken = false;
  std::vector<int32_t> pipelines = {1, 8};
  std::vector<int32_t> pool_percent = {10, 25, 50, 100};  // of the different blocks of the trace
  double prefill_tokens_per_second = 40'000;              // of all pipelines together
  double itl_ms = 20;
  bool json = false;
};

struct DirectoryBenchRow {
  int64_t blocks = 0;  // asked for
  int64_t hits = 0;
  int64_t waited = 0;              // requests that found no room when they came
  std::vector<double> computed_s;  // [pipelines] time that prompts took
  double ttft_mean_s = 0;
  double hit_rate() const { return static_cast<double>(hits) / static_cast<double>(blocks); }
  double spread() const;  // the busiest pipeline's time over the mean
};

struct TraceFacts {
  int64_t blocks = 0;
  int64_t different = 0;
  int64_t largest = 0;  // blocks of a request
  double best_hit_rate = 0;
};
TraceFacts FactsOf(const ReplayTrace& trace);

// Replays the trace on pipelines of `num_blocks` blocks each.  REQUIRES: the largest request fits
DirectoryBenchRow Replay(const ReplayTrace& trace, const DirectoryBenchOptions& options,
                         int32_t num_pipelines, int32_t num_blocks);
// The same on one pipeline with another rule of eviction.
DirectoryBenchRow ReplayRule(const ReplayTrace& trace, const DirectoryBenchOptions& options,
                             EvictionRule rule, int32_t num_blocks);

// Memory and time of a cached block of 16 tokens in the coordinator, in chains of 64 blocks.
struct BlockCost {
  int64_t blocks = 0;
  double directory_bytes = 0;  // per block, beside its tokens
  double pool_bytes = 0;
  double publish_ns = 0;
  double lookup_ns = 0;  // per block found
};
// REQUIRES: blocks > 0 and a multiple of 64
BlockCost MeasureBlockCost(int32_t blocks);

// Measures and prints. Returns the process's exit status: 2 when an option or the trace cannot be,
// having said so.
int RunDirectoryBench(const DirectoryBenchOptions& options);

}  // namespace tutti::bench
