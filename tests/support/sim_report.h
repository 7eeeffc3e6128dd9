// The settings and the figures of a simulated run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tests {

struct SimReport {
  std::vector<std::string> failures;  // the first ones; empty: all was well
  uint64_t requests = 0;
  uint64_t ended_well = 0;
  uint64_t tokens = 0;
  uint64_t plans = 0;
  uint64_t rows = 0;
  uint64_t preemptions = 0;
  uint64_t hit_tokens = 0;  // found in the KV cache
  uint64_t evictions = 0;
  uint64_t stale_frames = 0;
  uint64_t epochs = 0;
  uint64_t exchanges = 0;  // between ranks
  uint64_t rebuilt_tokens = 0;
  uint64_t guesses = 0;
  uint64_t right_guesses = 0;
  uint64_t drafts = 0;  // of them, those of the draft model
  uint64_t right_drafts = 0;
  uint64_t right_of_answers = 0;  // of them, those of finished answers
  int64_t plan_bytes = 0;         // of the largest
  uint64_t trace = 0;             // a digest of everything the engine did
};

}  // namespace tutti::tests
