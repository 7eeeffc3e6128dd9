#include "coordinator/kv/block_pool.h"

#include "base/check.h"

namespace tutti::coordinator {

BlockPool::BlockPool(int32_t num_blocks) : blocks_(num_blocks) {
  free_.reserve(num_blocks);
  for (int32_t id = num_blocks - 1; id >= 0; --id) free_.push_back(BlockId(id));
}

void BlockPool::Allocate(int32_t count, std::vector<BlockId>* blocks,
                         std::vector<BlockId>* evicted) {
  CHECK(count <= available()) << count << " blocks wanted, " << available() << " available";
  for (int32_t i = 0; i < count; ++i) {
    BlockId block;
    if (free_.empty()) {
      block = PopOldest();
      evicted->push_back(block);
    } else {
      block = free_.back();
      free_.pop_back();
    }
    blocks_[block.value()].holders = 1;
    ++in_use_;
    blocks->push_back(block);
  }
}

BlockId BlockPool::PopOldest() {
  const int32_t block = oldest_;
  Uncache(block);
  blocks_[block].published = false;
  return BlockId(block);
}

void BlockPool::Share(BlockId block) {
  Block& shared = blocks_[block.value()];
  CHECK(shared.holders > 0 || shared.published) << "block " << block << " is free";
  if (shared.holders++ > 0) return;
  Uncache(block.value());
  ++in_use_;
}

void BlockPool::Release(std::span<const BlockId> blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    Block& released = blocks_[block->value()];
    CHECK(released.holders > 0) << "block " << *block << " is freed twice";
    if (--released.holders > 0) continue;
    --in_use_;
    if (released.published) {
      Cache(block->value());
    } else {
      free_.push_back(*block);
    }
  }
}

void BlockPool::MarkPublished(BlockId block) {
  Block& published = blocks_[block.value()];
  CHECK(published.holders > 0) << "block " << block << " is published without a holder";
  published.published = true;
}

void BlockPool::Cache(int32_t block) {
  blocks_[block].older = youngest_;
  blocks_[block].younger = kNone;
  (youngest_ == kNone ? oldest_ : blocks_[youngest_].younger) = block;
  youngest_ = block;
  ++cached_;
}

void BlockPool::Uncache(int32_t block) {
  const int32_t older = blocks_[block].older;
  const int32_t younger = blocks_[block].younger;
  (older == kNone ? oldest_ : blocks_[older].younger) = younger;
  (younger == kNone ? youngest_ : blocks_[younger].older) = older;
  --cached_;
}

void BlockPool::CheckLedger() const {
  CHECK(free() + cached_ + in_use_ == total())
      << free() << " blocks free, " << cached_ << " cached, " << in_use_ << " in use, " << total()
      << " in all";
}

void BlockPool::CheckEveryBlock() const {
  CheckLedger();
  std::vector<bool> seen(blocks_.size(), false);
  for (const BlockId block : free_) {
    CHECK(blocks_[block.value()].holders == 0 && !seen[block.value()]) << "free block " << block;
    seen[block.value()] = true;
  }
  int32_t cached = 0;
  for (int32_t block = oldest_; block != kNone; block = blocks_[block].younger) {
    CHECK(blocks_[block].holders == 0 && blocks_[block].published && !seen[block])
        << "cached block " << block;
    seen[block] = true;
    ++cached;
  }
  CHECK(cached == cached_) << cached << " blocks in the list of " << cached_;
  for (int32_t block = 0; block < total(); ++block) {
    CHECK(seen[block] == (blocks_[block].holders == 0)) << "block " << block << " is lost";
  }
}

}  // namespace tutti::coordinator
