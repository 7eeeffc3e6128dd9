#include "kernels/cuda/ordered_bits.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/selection.h"

namespace tutti::kernels::cuda {
namespace {

// Candidates of a thread.
constexpr int kMine = kSelectedOfThread;
// Counts of warps, twice, two bounds, and the candidates that have a place.
constexpr int kSelectSharedBytes = (3 * kWarp + 4) * 4;

struct Least {
  TUTTI_DEVICE uint32_t operator()(uint32_t a, uint32_t b) const { return a < b ? a : b; }
};
struct Most {
  TUTTI_DEVICE uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

// Counts over a block, one barrier each: two take turns in shared memory, for one may still be read
// when the next is written.
template <int kThreads>
struct BlockCounter {
  int* counts;  // [2, kWarp]
  int turn = 0;

  // How many of the block's candidates `is`(j) of each thread's holds for.
  template <class Fn>
  TUTTI_DEVICE int Count(const Fn& is) {
    int mine = 0;
    TUTTI_UNROLL
    for (int j = 0; j < kMine; ++j) mine += is(j) ? 1 : 0;
    mine = SumInWarp(mine);
    int* const now = counts + turn * kWarp;
    turn = 1 - turn;
    if (Lane() == 0) now[WarpIndex()] = mine;
    SyncBlock();
    return SumInWarp(Lane() < kThreads / kWarp ? now[Lane()] : 0);
  }
};

// Keys between which the last of the wanted ones lies: at least so many are not below `least`, and
// none is above `most`.
struct Bounds {
  uint32_t least, most;
};

// The least among the largest of as many groups of lanes as are wanted, or more.
template <int kThreads>
TUTTI_DEVICE Bounds FindBounds(const uint32_t (&key)[kMine], int32_t wanted, uint32_t* shared) {
  uint32_t most = 0;
  TUTTI_UNROLL
  for (int j = 0; j < kMine; ++j) most = Most()(most, key[j]);
  int mask = 1;
  TUTTI_KEEP_LOOP
  for (; mask < kWarp && kThreads / (2 * mask) >= wanted; mask *= 2) {
    most = Most()(most, ShuffleXor(most, mask));
  }
  const uint32_t least = ReduceWarp(kThreads >= wanted ? most : 0, Least());
  most = ReduceWarp(most, Most());
  if (Lane() == 0) {
    shared[WarpIndex()] = least;
    shared[kWarp + WarpIndex()] = most;
  }
  SyncBlock();
  const bool has = Lane() < kThreads / kWarp;
  const Bounds bounds = {ReduceWarp(has ? shared[Lane()] : 0xffffffffu, Least()),
                         ReduceWarp(has ? shared[kWarp + Lane()] : 0, Most())};
  SyncBlock();  // counts come next
  return bounds;
}

// Candidates with a larger key, and those with an equal one up to an id, are `wanted` in number.
struct Border {
  uint32_t key = 1;  // 0 stands for NaN, which is none
  int32_t last_id = 0x7fffffff;
};

// REQUIRES: more than `wanted` are numbers
template <int kThreads>
TUTTI_DEVICE Border FindBorder(const uint32_t (&key)[kMine], const int32_t (&id)[kMine],
                               const SelectPartsArgs& args, BlockCounter<kThreads>* counter) {
  // The largest key that enough are not below.
  const Bounds bounds =
      FindBounds<kThreads>(key, args.wanted, reinterpret_cast<uint32_t*>(counter->counts));
  Border border = {.key = bounds.least};
  uint32_t beyond = bounds.most + 1;
  int reached = args.wanted + 1;
  TUTTI_KEEP_LOOP
  while (beyond - border.key > 1 && reached != args.wanted) {
    const uint32_t middle = border.key + (beyond - border.key) / 2;
    const int count = counter->Count([&](int j) { return key[j] >= middle; });
    if (count < args.wanted) {
      beyond = middle;
    } else {
      border.key = middle;
      reached = count;
    }
  }
  if (reached == args.wanted) return border;
  // Of those that equal it the first.
  const int above = counter->Count([&](int j) { return key[j] > border.key; });
  border.last_id = 0;
  TUTTI_KEEP_LOOP
  for (int bit = args.id_bits - 1; bit >= 0; --bit) {
    const int32_t larger = border.last_id | 1 << bit;
    const int before =
        counter->Count([&](int j) { return key[j] == border.key && id[j] < larger; });
    if (above + before < args.wanted) border.last_id = larger;
  }
  return border;
}

// A block per row and part.
template <int kThreads, bool kOfLogits>
TUTTI_KERNEL_OF(kThreads)
void SelectParts(TUTTI_PARAMETER SelectPartsArgs args) {
  BlockCounter<kThreads> counter = {.counts = reinterpret_cast<int*>(SharedMemory())};
  int* const placed = counter.counts + 3 * kWarp;
  const int32_t begin = static_cast<int32_t>(BlockY()) * kThreads * kMine + ThreadIndex();
  LetNextBegin();
  const int64_t row = args.row == nullptr ? 0 : args.row[BlockX()];
  WaitForEarlier();
  DeviceCandidate mine[kMine];
  TUTTI_UNROLL
  for (int j = 0; j < kMine; ++j) {
    const int32_t i = begin + j * kThreads;
    mine[j] = {kNoCandidate, 0};
    if (i >= args.count) continue;
    if constexpr (kOfLogits) {
      mine[j] = {i, args.logits[row * args.stride + i]};
    } else {
      mine[j] = args.candidates[BlockX() * args.count + i];
    }
  }
  uint32_t key[kMine];
  int32_t id[kMine];
  TUTTI_UNROLL
  for (int j = 0; j < kMine; ++j) {
    id[j] = mine[j].id;
    key[j] = id[j] == kNoCandidate ? 0 : OrderedBits(BitsOf(mine[j].logit));
  }
  if (ThreadIndex() == 0) *placed = 0;
  const int numbers = counter.Count([&](int j) { return key[j] > 0; });
  Border border;
  if (numbers > args.wanted) {
    SyncBlock();  // the bounds stand where the count does
    border = FindBorder<kThreads>(key, id, args, &counter);
  }
  DeviceCandidate* const out = args.out + (BlockX() * args.parts + BlockY()) * args.wanted;
  TUTTI_UNROLL
  for (int j = 0; j < kMine; ++j) {
    if (key[j] < border.key || (key[j] == border.key && id[j] > border.last_id)) continue;
    out[FetchAdd(placed, 1)] = mine[j];
  }
  for (int32_t i = numbers + ThreadIndex(); i < args.wanted; i += kThreads) {
    out[i] = {kNoCandidate, 0};
  }
}

template <int kThreads>
void LaunchParts(const SelectPartsArgs& args, Launcher* launcher) {
  LaunchEarly(
      args.candidates == nullptr ? &SelectParts<kThreads, true> : &SelectParts<kThreads, false>,
      {args.rows, args.parts}, kThreads, kSelectSharedBytes, launcher, args);
}

}  // namespace

void LaunchSelectParts(const SelectPartsArgs& args, Launcher* launcher) {
  if (args.part == kSelectPart) {
    LaunchParts<kSelectPart / kMine>(args, launcher);
  } else {
    LaunchParts<kSelectPartOfFew / kMine>(args, launcher);
  }
}

}  // namespace tutti::kernels::cuda
