// tutti-bench engine: the time of the coordinator's engine per step, without workers, links or
// clients.
//
// Every live sequence generates, or as many as may run while the others wait; synthetic workers
// answer at once. The measured time is the engine's thread alone: taking a step's reports,
// delivering tokens, letting the next ones in, planning the next step and writing its messages.
// Before that all requests arrive at once, which measures how they are dealt out. Where answers
// end, another request arrives for each, outside of the measured time. Last, the cost of a scrape.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

struct EngineBenchOptions {
  // One measurement of each pair.
  std::vector<int32_t> pipelines = {1};
  std::vector<int32_t> sequences = {1, 64, 1024, 10000};  // live at once, over all pipelines
  int32_t stages = 2;
  int32_t running = 0;  // of the sequences of each pipeline at most; 0: all
  int32_t prompt_tokens = 64;
  int32_t output_tokens = 0;  // of an answer; 0: without end
  bool guesses = false;       // of next tokens, most of which are right
  double seconds = 1;         // of each measurement
  bool json = false;
};

struct EngineBenchRow {
  int32_t pipelines = 0;
  int32_t sequences = 0;
  int64_t steps = 0;
  int64_t tokens = 0;
  double burst_us = 0;   // per request: all arrive at once, find their pipelines, are planned
  double result_us = 0;  // per token: from a step's reports to its tokens' delivery
  double plan_us = 0;    // per token: the plan of the next step, as messages for every stage
  double token_us() const { return result_us + plan_us; }
  double step_us = 0;
  // Of the engine's thread, when every busy pipeline does a step each 10 ms.
  double share() const { return step_us * std::min(pipelines, sequences) / 10'000; }
  double plan_bytes = 0;  // per token, to one stage
  // Of a scrape of /metrics: what the engine's thread does for it, in which no step is planned, and
  // the text, which another thread writes. Medians.
  double status_us = 0;
  double text_us = 0;
};

EngineBenchRow MeasureEngine(const EngineBenchOptions& options, int32_t pipelines,
                             int32_t sequences);

// Measures and prints. Returns the process's exit status: 2 when an option cannot be, having said
// so.
int RunEngineBench(const EngineBenchOptions& options);

}  // namespace tutti::bench
