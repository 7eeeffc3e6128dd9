// A tutti-worker that dies where it computes one given position: what a request does that a worker
// cannot compute. Made for tests/faults/run.py, whose other programs are the real ones.

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "base/fail_point.h"
#include "worker/service/worker_main.h"

int main(int argc, char** argv) {
  const char* const text = std::getenv("TUTTI_DIE_AT_POSITION");
  int64_t position = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &position)) {
    std::fputs("failing_worker: TUTTI_DIE_AT_POSITION is not set to a number\n", stderr);
    return 2;
  }
  const tutti::ScopedFailPoint armed("worker.die_at_position", {.argument = position});
  return tutti::worker::WorkerMain(argc, argv);
}
