// Blocks of one size, one from each rank of the stage: filled in by each, read by all.
//
// Thread: the executor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/collective.h"

namespace tutti::worker {

class EqualBlocks {
 public:
  // REQUIRES: the collective outlives this; it may be null for one rank.
  EqualBlocks(int ranks, int rank, kernels::Collective* collective)
      : ranks_(ranks), rank_(rank), collective_(collective) {}

  // Our block of the next exchange, to be filled, aligned to 8 bytes. Errors are the collective's.
  // REQUIRES: block_bytes is a multiple of 8
  absl::StatusOr<std::span<std::byte>> Begin(int64_t block_bytes);
  // Waits for the others' blocks.
  absl::Status Exchange();
  // REQUIRES: Exchange. Valid until the next Begin.
  std::span<const std::byte> block(int rank) const;

 private:
  const int ranks_;
  const int rank_;
  kernels::Collective* const collective_;
  std::vector<int64_t> alone_;  // memory for one rank
  std::span<std::byte> blocks_;
  int64_t block_bytes_ = 0;
  std::vector<int64_t> begin_;  // [ranks + 1]
};

}  // namespace tutti::worker
