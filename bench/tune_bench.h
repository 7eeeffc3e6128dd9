// tutti-bench tune: every value of every knob of the cpu backend, measured as a worker measures it
// at start (worker/kernel_tuner.h).
#pragma once

#include <string>

#include "worker/limits.h"

namespace tutti::bench {

struct TuneBenchOptions {
  int threads = 0;              // 0: every CPU this process may use
  std::string instruction_set;  // "": the machine's best
  double seconds = 10 * worker::kTuneSeconds;
  int rounds = 3 * worker::kTuneRoundsMax;
  bool json = false;
};

// Measures and prints. Returns the process's exit status: 2 when an option cannot be, having said
// so.
int RunTuneBench(const TuneBenchOptions& options);

}  // namespace tutti::bench
