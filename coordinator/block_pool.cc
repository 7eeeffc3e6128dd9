#include "coordinator/block_pool.h"

#include "base/check.h"

namespace tutti {

BlockPool::BlockPool(int32_t num_blocks) : in_use_(num_blocks, false) {
  free_.reserve(num_blocks);
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(BlockId(id));
}

void BlockPool::Take(int32_t count, std::vector<BlockId>* blocks) {
  CHECK(count <= free()) << count << " blocks wanted, " << free() << " free";
  for (int32_t i = 0; i < count; ++i) {
    const BlockId block = free_.back();
    free_.pop_back();
    in_use_[block.value()] = true;
    blocks->push_back(block);
  }
}

void BlockPool::Free(const std::vector<BlockId>& blocks) {
  // Backwards, so that a table freed and taken again comes back in its old order.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    CHECK(in_use_[block->value()]) << "block " << *block << " is freed twice";
    in_use_[block->value()] = false;
    free_.push_back(*block);
  }
}

}  // namespace tutti
