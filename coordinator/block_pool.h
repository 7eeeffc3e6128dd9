// The KV blocks of one pipeline. A block id means the same block on every stage; this is their only
// allocator.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace tutti {

class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  int32_t total() const { return static_cast<int32_t>(in_use_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }

  // Appends `count` blocks to *blocks, the most recently freed first: their memory is the likeliest
  // to be warm. REQUIRES: count <= free()
  void Take(int32_t count, std::vector<BlockId>* blocks);

  // Gives blocks back. CHECKs that each was taken: a block with two owners would mix two requests'
  // contexts.
  void Free(const std::vector<BlockId>& blocks);

 private:
  std::vector<BlockId> free_;  // a stack
  std::vector<bool> in_use_;   // [total]
};

}  // namespace tutti
