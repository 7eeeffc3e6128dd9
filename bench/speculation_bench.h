// tutti-bench speculation: answers that are known beforehand, with guesses and without, in turn.
//
// The scheduler plans as it does in a coordinator, and every step is computed and sampled as a
// worker does; then the token is taken from the script. So an answer is the same in every round,
// and steps cost what they cost, planning included. What was right is counted a second time, by the
// script alone.
//
// Several stages compute one after the other in this process, and are timed as if each had a
// machine like this one and links took no time: a stage begins a step when it has done the one
// before, and when the stage before it has done this one.
#pragma once

#include <string>

namespace tutti::bench {

struct SpeculationBenchOptions {
  std::string model;
  // A JSON object in each line: {"name": …, "prompt": TEXT, "answer": TEXT}, and perhaps "before":
  // TEXT, an answer of the same owner that has ended. The streams of a run have the same.
  std::string script;
  int threads = 0;  // 0: every CPU this process may use
  int streams = 1;
  int beside = 0;  // streams without guesses, whose times between tokens are told
  int stages = 1;
  int answer_tokens = 0;  // of an answer at most; 0: all
  int rounds = 3;
  bool any_time = false;  // guesses whatever time they take
};

// Measures and prints. Returns the process's exit status, having said why it is not 0.
int RunSpeculationBench(const SpeculationBenchOptions& options);

}  // namespace tutti::bench
