// The rows that a stage has sent on, kept in the host's memory beside the K/V of the same slots, so
// that a worker in the place of the next stage can compute its K/V anew from them.
//
// A block's rows are kept as a whole: they are believed when every slot of the block has been
// written, in order, since its first slot last was. A step that writes a block's K/V writes rows
// too, or drops them, so rows that are kept are those of the K/V beside them.
//
// Memory is that of the first `blocks` blocks, for as long as this lives; what is never written
// takes none. Thread: the executor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "worker/batch.h"

namespace tutti::worker {

class KeptRows {
 public:
  // Keeps nothing.
  KeptRows() = default;
  // Keeps nothing either where there is no memory for it.
  KeptRows(int32_t blocks, int32_t block_size, int64_t row_bytes);

  bool Matches(int32_t blocks, int32_t block_size, int64_t row_bytes) const {
    return blocks == blocks_ && block_size == block_size_ && row_bytes == row_bytes_;
  }

  // Of its memory, whether or not anything was written there yet.
  int64_t bytes() const {
    return rows_ == nullptr ? 0 : int64_t{blocks_} * block_size_ * row_bytes_;
  }

  // The rows of a step, [batch.rows, row_bytes], as they are sent on.
  void Store(const Batch& batch, std::span<const std::byte> rows);
  // The step's rows go on and are not to be had here.
  void Drop(const Batch& batch);
  // Writes the rows of the batch's tokens to `rows` [batch.rows, row_bytes]. FAILED_PRECONDITION
  // names the first that is not kept.
  absl::Status Load(const Batch& batch, std::span<std::byte> rows) const;

  // The blocks of which all rows are kept: bit b % 8 of byte b / 8.
  std::string CompleteBlocks() const;
  void Clear();

 private:
  // Rows [first, last) of a sequence's that lie one after the other in a block.
  struct Run {
    int32_t row = 0;  // in the step
    int32_t block = 0;
    int32_t slot = 0;
    int32_t count = 0;
    int32_t sequence = 0;  // in the batch
  };
  template <typename Visit>
  void VisitRuns(const Batch& batch, Visit visit) const;
  int64_t Offset(const Run& run) const {
    return (int64_t{run.block} * block_size_ + run.slot) * row_bytes_;
  }

  int32_t blocks_ = 0;
  int32_t block_size_ = 1;
  int64_t row_bytes_ = 0;
  std::unique_ptr<std::byte[]> rows_;  // [blocks, block_size, row_bytes]; null: nothing is kept
  std::vector<int32_t> filled_;        // [blocks]: slots from the first whose rows are kept
};

}  // namespace tutti::worker
