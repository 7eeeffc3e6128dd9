// The sizes of a cluster as they are typed after `tutti plan`, `tutti up` and tutti-coordinator.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti::placement {

// Most of one size; the devices end it before.
inline constexpr int32_t kLayoutSizeMax = 16384;

// "auto" is 0; otherwise a number from 1 to `most`. INVALID_ARGUMENT quotes any other text.
absl::StatusOr<int32_t> ParseSize(absl::string_view text, int32_t most = kLayoutSizeMax);

// --tensor-parallel-size: of every stage ("2" or "auto"), or of each ("1,2").
struct RankSizes {
  int32_t num_ranks = 1;             // 0: auto
  std::vector<int32_t> stage_ranks;  // empty: num_ranks everywhere
};
absl::StatusOr<RankSizes> ParseRanks(absl::string_view text);

}  // namespace tutti::placement
