// The blocks whose K/V is lacking, and on which stages, after a stage of the pipeline was lost and
// the others kept theirs.
//
// A block whose contents are published was computed by every stage. When a stage is lost all blocks
// lack it; a rebuild (peer.proto) computes it anew, block by block from a prefix's first. A block
// that gets other contents lacks nothing: all stages will write it.
//
// Two accounts for each block: the stages that lack its K/V, until a rebuild of it is done; and
// those that no step has been planned for. Steps run in the order of their plans on every stage,
// so a step may read what a step before it rebuilds; but when the pipeline ends, only what results
// have told is believed.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace tutti::coordinator {

// Stage i is bit i. Pipelines of more stages than bits go on with nothing.
using StageSet = uint64_t;
inline constexpr int32_t kStagesInSet = 64;

// The contents that the workers of a new epoch have kept of the one before.
struct KvSurvival {
  int32_t num_stages = 0;
  StageSet lost = 0;  // the K/V of these stages is gone
  // For each stage, the blocks whose rows it has kept: bit b % 8 of byte b / 8; those beyond the
  // end are not. [num_stages]
  std::vector<std::string> kept_rows;

  bool any() const {
    return num_stages > 0 && num_stages <= kStagesInSet &&
           lost != ~StageSet{0} >> (kStagesInSet - num_stages);
  }
};

class LackingBlocks {
 public:
  // Nothing is lacking.
  void Clear();
  // The cache of `num_blocks` blocks goes on, and they all lack the stages that were lost, beside
  // those that they lacked before. Nothing is planned.
  void Lose(const KvSurvival& survival, int32_t num_blocks);
  // The block gets other contents.
  void Overwrite(BlockId block);

  // Whether a stage lacks it that no step is planned for.
  bool IsDue(BlockId block) const { return !due_.empty() && due_[block.value()] != 0; }

  // The stages that a rebuild of a block computes: the last that lacks it, and those before up to
  // the nearest that has kept the block's rows, or the first.
  struct Part {
    int32_t first_stage = 0;
    int32_t last_stage = 0;
    bool operator==(const Part&) const = default;
    StageSet stages() const {
      return (~StageSet{0} >> (kStagesInSet - 1 - last_stage)) & (~StageSet{0} << first_stage);
    }
  };
  // REQUIRES: IsDue(block)
  Part PartOf(BlockId block) const;
  // Rows of that part, from the block's first, that steps are planned for.
  int32_t planned_rows(BlockId block) const { return planned_rows_[block.value()]; }
  // Steps are planned for so many more of the part's rows; with all of them the part is not due.
  void Plan(BlockId block, const Part& part, int32_t rows, int32_t block_size);
  // The part of the block has been computed.
  void Finish(BlockId block, const Part& part);

 private:
  bool HasKept(int32_t stage, BlockId block) const;

  // Both empty: nothing is lacking.
  std::vector<StageSet> lacking_;      // [blocks]
  std::vector<StageSet> due_;          // [blocks]
  std::vector<int32_t> planned_rows_;  // [blocks]
  std::vector<std::string> kept_rows_;
};

}  // namespace tutti::coordinator
