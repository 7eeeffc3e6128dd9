// A tile of attention's slots: where their keys and values lie in the cache, and which of them a
// row sees.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

inline constexpr int64_t kTileGroups = kAttentionTileSlots / 16;
inline constexpr int kGroupPairs = 8;

// One tile of slots: where its groups of 16 lie.
struct SlotTile {
  int64_t begin;  // first slot
  int64_t groups;
  const uint8_t* key[kTileGroups];
  const uint8_t* value[kTileGroups];
  const uint8_t*
      next_key[kTileGroups];  // of the next tile, to fetch ahead; this tile's where there is none
};

// Slots of a tile that a position sees.
TUTTI_INLINE int64_t ValidSlots(int64_t position, int64_t tile_begin) {
  const int64_t valid = position - tile_begin + 1;
  return valid < kAttentionTileSlots ? valid : kAttentionTileSlots;
}

// Keys and values of the 16 slots that start at slot `slot`.
TUTTI_INLINE const uint8_t* KeyGroup(const AttentionJob& job, const AttentionItem& item,
                                     int64_t slot) {
  const int64_t block = item.blocks[slot / job.block_size];
  const int64_t group_bytes = job.key_bytes / (job.block_size / 16);
  return job.cache + block * job.block_bytes + item.kv_head * job.head_bytes +
         slot % job.block_size / 16 * group_bytes;
}
TUTTI_INLINE const uint8_t* ValueGroup(const AttentionJob& job, const AttentionItem& item,
                                       int64_t slot) {
  const int64_t block = item.blocks[slot / job.block_size];
  const int64_t group_bytes = (job.head_bytes - job.key_bytes) / (job.block_size / 16);
  return job.cache + block * job.block_bytes + item.kv_head * job.head_bytes + job.key_bytes +
         slot % job.block_size / 16 * group_bytes;
}

static inline SlotTile LocateTile(const AttentionJob& job, const AttentionItem& item, int64_t begin,
                                  int64_t slots) {
  SlotTile tile;
  tile.begin = begin;
  const int64_t end = slots < begin + kAttentionTileSlots ? slots : begin + kAttentionTileSlots;
  tile.groups = (end - begin + 15) / 16;
  for (int64_t g = 0; g < tile.groups; ++g) {
    const int64_t slot = begin + 16 * g;
    const int64_t next = slot + kAttentionTileSlots;
    tile.key[g] = KeyGroup(job, item, slot);
    tile.value[g] = ValueGroup(job, item, slot);
    tile.next_key[g] = next < slots ? KeyGroup(job, item, next) : tile.key[g];
  }
  return tile;
}

}  // namespace tutti::kernels::cpu
