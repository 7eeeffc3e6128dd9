#include "worker/kept_rows.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tutti::worker {

KeptRows::KeptRows(int32_t blocks, int32_t block_size, int64_t row_bytes)
    : blocks_(blocks), block_size_(block_size), row_bytes_(row_bytes) {
  if (blocks == 0) return;
  const auto bytes = static_cast<size_t>(blocks) * static_cast<size_t>(block_size) *
                     static_cast<size_t>(row_bytes);
  rows_.reset(new (std::nothrow) std::byte[bytes]);
  if (rows_ != nullptr) filled_.assign(static_cast<size_t>(blocks), 0);
}

template <typename Visit>
void KeptRows::VisitRuns(const Batch& batch, Visit visit) const {
  const auto sequences = static_cast<int32_t>(batch.first_position.size());
  for (int32_t s = 0; s < sequences; ++s) {
    const int32_t* const blocks = &batch.blocks[batch.block_begin[s]];
    for (int32_t row = batch.row_begin[s]; row < batch.row_begin[s + 1];) {
      const int32_t position = batch.positions[row];
      const int32_t slot = position % block_size_;
      const int32_t count = std::min(batch.row_begin[s + 1] - row, block_size_ - slot);
      visit(Run{row, blocks[position / block_size_], slot, count, s});
      row += count;
    }
  }
}

void KeptRows::Store(const Batch& batch, std::span<const std::byte> rows) {
  if (rows_ == nullptr) return;
  VisitRuns(batch, [&](const Run& run) {
    if (run.block >= blocks_) return;
    int32_t& filled = filled_[run.block];
    // A block begins with its first slot; one that was not kept from there is not believed. A row
    // that is computed again is the one that was kept, and slots of wrong guesses get others.
    if (run.slot != 0 && filled < run.slot) {
      filled = 0;
      return;
    }
    std::memcpy(&rows_[Offset(run)], &rows[run.row * row_bytes_], run.count * row_bytes_);
    filled = run.slot + run.count;
  });
}

void KeptRows::Drop(const Batch& batch) {
  if (rows_ == nullptr) return;
  VisitRuns(batch, [&](const Run& run) {
    if (run.block < blocks_) filled_[run.block] = 0;
  });
}

absl::Status KeptRows::Load(const Batch& batch, std::span<std::byte> rows) const {
  absl::Status status;
  VisitRuns(batch, [&](const Run& run) {
    if (!status.ok()) return;
    if (rows_ == nullptr || run.block >= blocks_ || filled_[run.block] < run.slot + run.count) {
      status = absl::FailedPreconditionError(absl::StrCat(
          "sequence ", batch.sequences[run.sequence].value(), ": the rows of position ",
          batch.positions[run.row], " in block ", run.block, " are not kept here"));
      return;
    }
    std::memcpy(&rows[run.row * row_bytes_], &rows_[Offset(run)], run.count * row_bytes_);
  });
  return status;
}

std::string KeptRows::CompleteBlocks() const {
  std::string bits((filled_.size() + 7) / 8, '\0');
  for (size_t block = 0; block < filled_.size(); ++block) {
    if (filled_[block] < block_size_) continue;
    bits[block / 8] = static_cast<char>(bits[block / 8] | (1 << (block % 8)));
  }
  return bits;
}

void KeptRows::Clear() { std::fill(filled_.begin(), filled_.end(), 0); }

}  // namespace tutti::worker
