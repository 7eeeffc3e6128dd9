#include "worker/sampling/equal_blocks.h"

#include "base/check.h"

namespace tutti::worker {

absl::StatusOr<std::span<std::byte>> EqualBlocks::Begin(int64_t block_bytes) {
  CHECK(block_bytes >= 0 && block_bytes % 8 == 0) << block_bytes;
  block_bytes_ = block_bytes;
  if (ranks_ == 1) {
    alone_.resize(static_cast<size_t>(block_bytes / 8));
    blocks_ = std::as_writable_bytes(std::span(alone_));
    return blocks_;
  }
  TUTTI_ASSIGN_OR_RETURN(blocks_, collective_->Acquire(block_bytes * ranks_));
  begin_.clear();
  for (int rank = 0; rank <= ranks_; ++rank) begin_.push_back(rank * block_bytes);
  return blocks_.subspan(rank_ * block_bytes, block_bytes);
}

absl::Status EqualBlocks::Exchange() {
  return ranks_ == 1 ? absl::OkStatus() : collective_->Gather(begin_);
}

std::span<const std::byte> EqualBlocks::block(int rank) const {
  return blocks_.subspan(rank * block_bytes_, block_bytes_);
}

}  // namespace tutti::worker
