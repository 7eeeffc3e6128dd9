// tutti-bench speculation: answers that are known beforehand, with guesses and without, in turn.
//
// The scheduler plans as it does in a coordinator, and every step is computed and sampled as a
// worker does; then the token is taken from the script. So an answer is the same in every round,
// and steps cost what they cost. What was right is counted a second time, by the script alone.
#pragma once

#include <string>

namespace tutti::bench {

struct SpeculationBenchOptions {
  std::string model;
  // A JSON object in each line: {"name": …, "prompt": TEXT, "answer": TEXT}. The streams of a run
  // have the same.
  std::string script;
  int threads = 0;  // 0: every CPU this process may use
  int streams = 1;
  int rounds = 3;
  bool any_time = false;  // guesses whatever time they take
};

// Measures and prints. Returns the process's exit status, having said why it is not 0.
int RunSpeculationBench(const SpeculationBenchOptions& options);

}  // namespace tutti::bench
