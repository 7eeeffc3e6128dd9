#include "coordinator/kv/lacking_blocks.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tutti::coordinator {

void LackingBlocks::Clear() {
  lacking_.clear();
  due_.clear();
  planned_rows_.clear();
  kept_rows_.clear();
}

void LackingBlocks::Lose(const KvSurvival& survival, int32_t num_blocks) {
  lacking_.resize(static_cast<size_t>(num_blocks), 0);
  for (StageSet& stages : lacking_) stages |= survival.lost;
  due_ = lacking_;
  planned_rows_.assign(static_cast<size_t>(num_blocks), 0);
  kept_rows_ = survival.kept_rows;
}

void LackingBlocks::Overwrite(BlockId block) {
  if (lacking_.empty()) return;
  lacking_[block.value()] = due_[block.value()] = 0;
  planned_rows_[block.value()] = 0;
}

bool LackingBlocks::HasKept(int32_t stage, BlockId block) const {
  const std::string& kept = kept_rows_[stage];
  const auto byte = static_cast<size_t>(block.value() / 8);
  return byte < kept.size() && (static_cast<uint8_t>(kept[byte]) >> (block.value() % 8) & 1) != 0;
}

LackingBlocks::Part LackingBlocks::PartOf(BlockId block) const {
  const StageSet due = due_[block.value()];
  CHECK(due != 0) << "block " << block << " lacks nothing";
  Part part;
  part.last_stage = static_cast<int32_t>(std::bit_width(due)) - 1;
  part.first_stage = part.last_stage;
  while (part.first_stage > 0 && !HasKept(part.first_stage - 1, block)) --part.first_stage;
  return part;
}

void LackingBlocks::Plan(BlockId block, const Part& part, int32_t rows, int32_t block_size) {
  int32_t& planned = planned_rows_[block.value()];
  planned += rows;
  CHECK(planned <= block_size) << "block " << block << " is rebuilt beyond its end";
  if (planned < block_size) return;
  planned = 0;
  due_[block.value()] &= ~part.stages();
}

void LackingBlocks::Finish(BlockId block, const Part& part) {
  if (!lacking_.empty()) lacking_[block.value()] &= ~part.stages();
}

}  // namespace tutti::coordinator
