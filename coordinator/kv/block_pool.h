// The KV blocks of one pipeline. A block id means the same block on every stage; this is their only
// allocator.
//
// A block is in use (it has a holder), cached (it has none, but the KV directory knows its content)
// or free. Free blocks are allocated first, then cached ones, least recently released first. A
// table is released from its end, so that of a chain the tail is evicted before the head: the rest
// is still a prefix.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace tutti::coordinator {

class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  int32_t total() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached() const { return cached_; }
  int32_t in_use() const { return in_use_; }
  // Blocks that Allocate can hand out.
  int32_t available() const { return free() + cached(); }

  // Appends `count` blocks to *blocks, each with one holder: the most recently freed first, whose
  // memory is the likeliest to be warm. Appends to *evicted those that were cached; the directory
  // must forget them before anything else happens.  REQUIRES: count <= available()
  void Allocate(int32_t count, std::vector<BlockId>* blocks, std::vector<BlockId>* evicted);

  // One more holder.  REQUIRES: the block is in use or cached
  void Share(BlockId block);

  // One holder less of each; a block without holders is cached if it is published, else free.
  // CHECKs that each is held: a block handed out while a sequence reads it would mix two contexts.
  void Release(std::span<const BlockId> blocks);

  // The directory knows the block's content from now on.  REQUIRES: it is in use
  void MarkPublished(BlockId block);

  int32_t holders(BlockId block) const { return blocks_[block.value()].holders; }
  bool published(BlockId block) const { return blocks_[block.value()].published; }

  int64_t memory_bytes() const {
    return static_cast<int64_t>(blocks_.capacity() * sizeof(Block) +
                                free_.capacity() * sizeof(BlockId));
  }

  // CHECKs by count that every block is free, cached or in use.
  void CheckLedger() const;
  // CHECKs the same block by block. Slow.
  void CheckEveryBlock() const;

 private:
  static constexpr int32_t kNone = -1;

  struct Block {
    int32_t holders = 0;
    // Neighbours in the list of cached blocks; kNone at its ends and outside.
    int32_t older = kNone;
    int32_t younger = kNone;
    bool published = false;
  };

  BlockId PopOldest();
  void Cache(int32_t block);
  void Uncache(int32_t block);

  std::vector<Block> blocks_;  // [total]
  std::vector<BlockId> free_;  // a stack
  int32_t oldest_ = kNone;     // of the cached
  int32_t youngest_ = kNone;
  int32_t cached_ = 0;
  int32_t in_use_ = 0;
};

}  // namespace tutti::coordinator
