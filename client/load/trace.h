// A recorded day of a service, in one of two formats, told by the first line. That of Mooncake's
// traces (kvcache-ai/Mooncake) is JSON Lines,
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
//
// timestamp in milliseconds since the start; lengths in tokens; hash_ids name the prompt's blocks
// of 512 tokens, the last of which may be part of a block: equal ids are equal tokens after an
// equal prefix.
//
// That of Azure's (Azure/AzurePublicDataset, AzureLLMInferenceTrace) is CSV,
//
//   TIMESTAMP,ContextTokens,GeneratedTokens
//   2023-11-16 18:15:46.6805900,374,44
//
// with the time of day; the first request comes at once. Nothing is told of what prompts have in
// common: no two have a block that is equal.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::client {

inline constexpr int32_t kTraceBlockTokens = 512;

struct TraceRequest {
  Duration at{};  // since the start of the trace
  int32_t input_tokens = 0;
  int32_t output_tokens = 0;
  std::vector<int64_t> blocks;
};

// The first `requests_max` requests (0: all) in the order of the file. `name` stands in errors:
// INVALID_ARGUMENT "name:line: …" for a line that is not of the format, that goes back in time, or
// whose blocks do not cover its input, and for a file without requests.
absl::StatusOr<std::vector<TraceRequest>> ReadTrace(std::istream& in, const std::string& name,
                                                    int64_t requests_max);

}  // namespace tutti::client
