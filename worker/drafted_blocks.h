// What the draft model's K/V in each block is of: a sequence whose prefix is cached need not
// compute it again, nor one that comes again after a preemption or a new epoch.
//
// A block is named by its tokens and all before it. One whose contents are not known, or only in
// part those of a text, has no name.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/sip_hash.h"

namespace tutti::worker {

class DraftedBlocks {
 public:
  DraftedBlocks(int32_t num_blocks, int32_t block_size)
      : block_size_(block_size), names_(static_cast<size_t>(num_blocks)) {}

  // A sequence's tokens and the blocks of their slots. `names`: of its first whole blocks, as far
  // as they have been looked for; kept by the caller, and cut to those that have all their tokens
  // still when tokens are taken back.
  struct Text {
    std::span<const TokenId> tokens;
    std::span<const int32_t> blocks;
    std::vector<Hash128>* names;
  };

  // Of a text that is computed up to `computed`: up to where it is, because blocks of its first
  // `cached` tokens hold just that.
  int32_t ComputedTo(const Text& text, int32_t computed, int32_t cached) const;
  // Its rows [first, end) are computed, and all before.
  void OnComputed(const Text& text, int32_t first, int32_t end);

 private:
  const Hash128& NameOf(const Text& text, int32_t index) const;

  const int32_t block_size_;
  std::vector<Hash128> names_;  // [num_blocks]; zeros: none
};

}  // namespace tutti::worker
