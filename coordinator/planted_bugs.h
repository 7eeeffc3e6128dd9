// Bugs that the engine can be told to have, so that tests can show that the simulator finds such
// bugs.
#pragma once

#include <cstdint>

namespace tutti::coordinator {

enum class PlantedBug : uint32_t {
  kSkipEpochCheck = 1 << 0,  // frames of old epochs are taken for current ones
  kFreeBlockEarly =
      1 << 1,  // a growing sequence gives its first block back while it still reads it
  kFreeBlockTwice = 1 << 2,  // a sequence that leaves frees its last block a second time
  kForgetFinished = 1 << 3,  // the workers are not told of a sequence that left
  kKeepComputed = 1 << 4,    // a preempted sequence believes that its first block is still computed
  kFreeSharedBlock = 1 << 5,    // a sequence that leaves frees blocks that others hold too
  kHashWithoutTenant = 1 << 6,  // prefixes of all cache domains are one
  kKeepEvicted = 1 << 7,        // the directory is not told of an evicted block
  kKeepBacklog = 1 << 8,        // tokens planned still count as waiting
  kForgetOnFirstRank = 1 << 9,  // only the first rank of a stage is told of sequences that left
  kSkipRankEpoch = 1 << 10,     // frames of old epochs are taken from the other ranks of a stage
};

constexpr bool IsPlanted(uint32_t bugs, PlantedBug bug) {
  return (bugs & static_cast<uint32_t>(bug)) != 0;
}

}  // namespace tutti::coordinator
