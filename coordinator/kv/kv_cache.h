// The KV cache of one pipeline as its scheduler sees it: the block pool, the part of the KV
// directory about its blocks, and the block tables of running sequences (Sequence::Stay).
//
// A table may begin with blocks that other sequences hold too. They are full, computed and never
// written again: a sequence that shares them computes from their end on, into blocks of its own.
//
// When the pipeline ends, the cache may be laid by: what is published stays known, for an epoch in
// which some stages go on with their K/V (lacking_blocks.h).
//
// Thread: the engine's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "coordinator/kv/block_pool.h"
#include "coordinator/kv/kv_directory.h"
#include "coordinator/kv/lacking_blocks.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

class KvCache {
 public:
  // `directory` outlives the cache; null: nothing is published or found.
  KvCache(KvDirectory* directory, PipelineId pipeline, int32_t block_size);

  // The contents that were laid by are forgotten.  REQUIRES: closed
  void Open(int32_t num_blocks);
  // REQUIRES: open, and no sequence holds a block
  void Close();
  // The same, and Resume may open it with what is published now.
  void LayBy();
  // Whether what was laid by is of so many blocks.
  bool CanResume(int32_t num_blocks) const {
    return laid_by_.has_value() && laid_by_->total() == num_blocks;
  }
  // A block that holds nothing any more; if all do, the one released least recently.
  // REQUIRES: CanResume
  BlockId FreeOfLaidBy();
  // REQUIRES: closed, CanResume, survival.any()
  void Resume(const KvSurvival& survival);

  // The cached blocks that a newcomer finds, and the blocks it would take.
  struct Room {
    std::vector<BlockId> prefix;  // the blocks of its longest cached prefix
    int32_t blocks = 0;           // of available() that it needs for all its tokens
  };
  // At least its last token is left to compute, so that there are logits.  REQUIRES: open
  Room Find(const Sequence& sequence) const;
  int32_t available() const { return pool_->available(); }
  // Another number after every change of the blocks and of what is in them: while it is the same,
  // Find and available() say the same.
  uint64_t version() const { return version_; }
  // Cached tokens that would have to go for so many blocks.
  int64_t EvictedTokens(int64_t blocks) const {
    return std::max<int64_t>(0, blocks - pool_->free()) * block_size_;
  }

  // Fills the table of a newcomer: its prefix, and blocks for the rest of its tokens. The tokens of
  // the prefix count as computed.  REQUIRES: room is Find's answer now; room.blocks <= available()
  void Admit(const Room& room, Sequence* sequence);
  // Blocks its table lacks for its tokens up to `tokens`.
  int32_t Missing(const Sequence& sequence, int64_t tokens) const;
  // REQUIRES: count <= available()
  void Grow(int32_t count, Sequence* sequence);
  // CHECKs that its slots [first, end) are its own and not published: a block that other sequences
  // read never changes.
  void CheckWritable(const Sequence& sequence, int32_t first, int32_t end) const;
  // Tells the directory of its full blocks that are computed by now.
  void Publish(Sequence* sequence);
  // Gives back the blocks of its table; published blocks stay cached while the memory is not
  // needed. The caller ends the sequence's stay.
  void Release(const Sequence& sequence);

  // Blocks that would be available if this one left, beside those in the prefix of the room: the
  // ones that no other holds.
  int32_t GivenBack(const Sequence& running, const Room& room) const;

  // Full blocks of `sequence` that `running` has or will have, if nothing happens to it.
  int32_t SharedBlocks(const Sequence& sequence, const Sequence& running) const;
  bool reuses() const { return directory_ != nullptr; }

  // The blocks whose K/V some stages lack.
  LackingBlocks* lacking() { return &lacking_; }
  // The first block that is due, of those that the sequence was admitted with; none: none is.
  std::optional<int32_t> FirstDue(const Sequence& sequence) const;

  // 0 while closed.
  int32_t blocks_total() const { return pool_.has_value() ? pool_->total() : 0; }
  int32_t blocks_in_use() const { return pool_.has_value() ? pool_->in_use() : 0; }
  int32_t blocks_cached() const { return pool_.has_value() ? pool_->cached() : 0; }

  struct Counters {
    uint64_t lookup_tokens = 0;  // of sequences when they were first admitted
    uint64_t hit_tokens = 0;     // ... that were cached
    uint64_t evictions = 0;      // blocks
  };
  const Counters& counters() const { return counters_; }

  // CHECKs by count that every block is free, cached or in use.
  void CheckLedger() const;

 private:
  void Allocate(int32_t count, std::vector<BlockId>* blocks);
  int32_t FullBlocks(int32_t tokens) const { return tokens / block_size_; }

  KvDirectory* const directory_;
  const PipelineId pipeline_;
  const int32_t block_size_;
  std::optional<BlockPool> pool_;
  std::optional<BlockPool> laid_by_;
  LackingBlocks lacking_;
  uint64_t version_ = 0;
  std::vector<BlockId> evicted_;  // kept for its memory
  Counters counters_;
};

}  // namespace tutti::coordinator
