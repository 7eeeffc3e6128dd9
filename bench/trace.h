// Traces of requests in the format of Mooncake's published ones: a JSON object per line with
// timestamp (ms), input_length and output_length (tokens) and hash_ids, one for each block of 512
// input tokens; equal ids stand for equal tokens after equal beginnings.
//
// Format: R. Qin et al., "Mooncake: trading more storage for less computation", FAST 2025.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::bench {

inline constexpr int64_t kReplayBlockTokens = 512;

struct ReplayRequest {
  double arrival_s = 0;
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
  std::vector<int32_t> blocks;  // [ceil(input_tokens / 512)]
};

struct ReplayTrace {
  std::vector<ReplayRequest> requests;  // by arrival
  std::vector<std::string> broken;      // the error of each line left out
};

// Reads a trace. A broken line is INVALID_ARGUMENT naming file, line and field, or left out when
// `skip_broken`. NOT_FOUND for a file that cannot be read.
absl::StatusOr<ReplayTrace> ReadReplayTrace(const std::string& path, bool skip_broken);

}  // namespace tutti::bench
