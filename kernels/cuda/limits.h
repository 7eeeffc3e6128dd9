// Sizes that shape the CUDA kernels, each with where it comes from. Those marked "numerics" decide
// in which order numbers are added: changing one changes the bits of every answer. Those that also
// decide how much memory is taken have their values in kernels/gpu_memory.h, where plans see them.
#pragma once

#include <cstdint>

#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {

// Numerics. Leaves of a row-parallel product at most: the tree of docs/decisions/0002 has eight,
// and a kernel holds one pending sum for each of its three levels in registers.
inline constexpr int kLeavesMax = 8;
inline constexpr int kLeafLevels = 3;

// Numerics. k of one chunk of a product: a lane's 16-byte load holds 8 consecutive k, four lanes
// 32, two tensor-core instructions.
inline constexpr auto kChunkK = kGpuChunkK;

// Output features and activation rows of one tensor-core instruction.
inline constexpr auto kTileOut = kGpuTileOut;
inline constexpr auto kTileRows = kGpuTileRows;

// Chunks under way in the kernel for few rows. A warp then has 15 * 1.5 KiB in flight; with three
// warps on a multiprocessor, the fewest a product of an 8B model gives, that is 68 KiB, twice what
// 4.3 TB/s at 0.9 us of latency over 132 multiprocessors asks for.
inline constexpr int kStreamStages = 16;
// The same where a block has a warp for each of up to eight leaves, by tiles of rows: two blocks of
// 96 KiB on a multiprocessor, or two of 96 KiB with two tiles. The 256 blocks of 4,096 outputs then
// have 14 MiB in flight, 64 of 1,024 outputs 3.5 MiB. More than 99 KiB a block not every GPU has.
inline constexpr int kLeafStreamStages[] = {8, 6};
// Of these, chunks that a warp asks for at once while kernels before run (kRingBurstBytes).
inline constexpr int kLeafStreamBurst = 3;
// Rows above which weights are shared through the block instead: each warp rereads the rows.
inline constexpr auto kStreamRows = kGpuStreamRows;

// Of products of few rows with codes (codes.cu), shared memory of a block, of which two have room
// on a multiprocessor: more than 99 KiB not every GPU has. What sums leave of it are rings of
// chunks, of 24 to 40 KiB of codes. And chunks in the ring of a block that has one warp, as its
// weight has one strip.
inline constexpr int kFewCodesBytes = 99 << 10;
inline constexpr int kLoneCodeStages = 24;

// Chunks under way in the kernels for many rows: four of 16 KiB leave room for two blocks on a
// multiprocessor of compute capability 8.0.
inline constexpr int kTileStages = 4;
// In the kernel for some rows, whose blocks may be fewer than multiprocessors: 96 of 64 outputs for
// the 6,144 of an 8B model's first product have 7 * 4 KiB of weights each under way, 2.6 MiB.
inline constexpr int kSmallTileStages = 8;
// Rows, beyond those of kStreamRows, up to which each leaf has blocks of its own and its sums pass
// through memory; above it the larger tiles pay, which add leaves up in registers. At 127 rows and
// 4,096 outputs the sums of eight leaves are 16 MiB, written and read, where 32 MiB of weights are
// read.
inline constexpr auto kLeafSumRows = kGpuLeafSumRows;

// Of the products by wgmma of few and some rows (product_ring.h). Shared memory of a block: as
// much of its weights is on the way while those of the product before end and the kernels between
// run. 20 MiB in all are five microseconds of 4.3 TB/s, as long as a norm takes. On an H200 112 KiB
// were slower, 208 KiB no faster (bench/results/cuda-h200-rings.md).
inline constexpr int kRingBytes = 160 << 10;
// Of which two share a multiprocessor: while one ends, another one's weights come.
inline constexpr int kSharedRingBytes = 112 << 10;
// Of these, bytes of a multiprocessor's that are asked for at once while kernels before run, whose
// few reads wait behind them: with all at once a norm waited for its row for three of the five
// microseconds that it took. 4.3 TB/s ask for 33 KiB of each multiprocessor within a microsecond.
inline constexpr int kRingBurstBytes = 64 << 10;
// Stages at least, for which more is taken.
inline constexpr int kRingStagesMin = 4;
inline constexpr int kRingStagesMax = 32;

// Of the products by wgmma of many rows. Rows that one bulk copy brings of a chunk: 4 KiB.
inline constexpr auto kWideRows = kGpuWideRows;
// Chunks of a stage, and stages under way: four of 48 KiB, of the 227 KiB that a block may have;
// beside the pending sums of a block for leaves (96 KiB) four of 32 KiB. Three stages of a
// multiprocessor last 3,072 cycles of its tensor cores, or 1,536: 1.7 microseconds or 0.9, where
// memory answers within one.
inline constexpr int kWideChunks = 2;
inline constexpr int kWideStages = 4;
// Rows whose blocks run side by side: their activations stay in the L2 cache (16 MiB of 50 for k =
// 4,096) while weights pass once, so that weights are read from memory once for as many rows.
inline constexpr int kWideGroupRows = 2048;

// Shapes of products whose algorithm of cuBLASLt is remembered, some 2 KiB each: as many lengths of
// prompts times the five shapes of a dense layer as come in a while. Then all are asked for anew.
inline constexpr int64_t kCublasRecipesMax = 4096;

// Numerics. Slots of an attention tile, from absolute slot 0. A tile is attended to from nothing
// and then folded into those before it, so that tiles may be computed apart.
inline constexpr auto kAttentionTile = kGpuAttentionTile;
// Slots of one unit of the cache: k of the tensor-core instruction. Divides every block size.
inline constexpr int kKvUnit = 16;
// Pairs (row, query head of the group) of one warp: rows of the tensor-core instruction.
inline constexpr auto kPairs = kGpuPairs;
// A tile passes in eight stages: four of keys (32 slots each), four of values (a quarter of the
// head each). Four stages are under way.
inline constexpr int kAttentionStages = 4;
// Warps that share a tile when many rows attend to it.
inline constexpr auto kAttentionWarps = kGpuAttentionWarps;
// Pairs of a warpgroup that attends by wgmma, and of a block.
inline constexpr int kGroupPairs = 64;
inline constexpr int kWidePairs = 2 * kGroupPairs;
// Blocks of the kernel for few pairs that run side by side on a large GPU: three of 73 KiB on each
// of 132 multiprocessors.
inline constexpr int64_t kFewBlocks = 396;
// Blocks of one tile, in times of what runs side by side, from which on each brings keys and values
// one after the other, so that more of them fit: 64 streams of 2,048 slots, which are twenty times
// as many, take 144 us on an H200 instead of 177; three times as many are no faster.
inline constexpr int64_t kCrowdedTimes = 4;
// Pairs of a sequence up to which its tiles are spread over the device and folded afterwards.
inline constexpr auto kSpreadPairs = kGpuSpreadPairs;
// Room for tiles computed apart. At head_dim 128 a record is 8.1 KiB per KV head: 64 sequences of
// 8 heads at 4,096 positions, 16,384 records, fit. Beyond it tiles are walked in order instead,
// which changes no bits.
inline constexpr auto kSpreadBytesMax = kGpuSpreadBytesMax;

// Threads of the row-wise kernels. Numerics: the sums of a row run over this many partial sums.
inline constexpr int kRowThreads = 256;

// Logits of a part of a row that a block looks through for the best, at the least: 32 bytes for a
// thread. And parts of all rows together, some eight blocks for each multiprocessor.
inline constexpr int64_t kBestPart = 2048;
inline constexpr int64_t kBestParts = 1024;

// Candidates that each thread of a selection has, and with it a block of 1,024 threads; of few
// rows, whose blocks all find a place, one of 512: all warps of a block wait for one another.
inline constexpr int kSelectedOfThread = 8;
inline constexpr int32_t kSelectPart = 8192;
inline constexpr int32_t kSelectPartOfFew = 4096;
inline constexpr int64_t kSelectFewRows = 8;
// The most that is selected: a quarter of a part, so that what is left of a row is soon one part.
inline constexpr int64_t kSelectedMax = 1024;

// Threads of the kernel that adds to a row of the residual and norms it, one block a row: with few
// rows each has a multiprocessor to itself, so it has as many loads under way as fit. The norm's
// sum keeps to kRowThreads.
inline constexpr int kAddNormThreads = 1024;
// Shared memory for the row: the most that a block may have on every GPU we serve, so 24,000
// columns.
inline constexpr int64_t kAddNormSharedBytesMax = 96 << 10;
// With many rows: several blocks on a multiprocessor, so that one loads while another adds up.
inline constexpr int kAddNormManyThreads = 512;
// Threads of kernels over the numbers of few rows, so that one row of 12,288 has 24 blocks.
inline constexpr int kFewRowThreads = 128;
// Rows up to which all operators that can be are joined. With more, rows of f16, which are scaled
// by leaf, and those that no thread can read by 16 bytes are made operator by operator.
inline constexpr int64_t kJoinedRows = kLeafSumRows;

// Heads wider than this have no kernel.
inline constexpr auto kHeadDimMax = kGpuHeadDimMax;

// Device memory through which weights pass on their way into the kernels' layout: long copies, and
// a thousandth of a GPU's memory.
inline constexpr int64_t kPackStagingBytes = int64_t{64} << 20;

// Pinned memory for the small arrays of a step (positions, block tables). 64 sequences of 2,048
// blocks are 512 KiB; larger arrays are copied without it.
inline constexpr int64_t kPinnedBytes = int64_t{4} << 20;

// Contents of one kind that are remembered on the device: layers with and without a sliding window
// alternate between two.
inline constexpr auto kRememberedUploads = kGpuRememberedUploads;

// Recorded launches that are started at the latest, some thirteen layers of a dense model.
inline constexpr int64_t kListLaunches = 128;
// Of the first list of a step, for which the GPU waits: it begins when the host has gone through
// these. Two layers are work enough for the time in which the next list is recorded. On an H200 a
// step of one token begins 45 us earlier than with lists of 128 from the first on.
inline constexpr int64_t kFirstListLaunches = 16;
// Fewer are started one by one: finding a graph and starting it is some work, too.
inline constexpr int64_t kGraphLaunchesMin = 4;

// Graphs at a time. A step of 36 dense layers is four, so 1,020 shapes of steps; where ranks
// exchange on the device it is 72, so 56 shapes.
inline constexpr int64_t kGraphsMax = 4096;
// Host memory for the keys by which they are found: 2,000 full lists of 128 launches, 30 KiB each.
inline constexpr int64_t kGraphKeyBytesMax = int64_t{64} << 20;
// Device memory that graphs may take, as measured while they are made (GraphBytes): 0.2 % of a
// large GPU, 1 KiB for each kernel of as many lists as the keys have room for.
inline constexpr int64_t kGraphDeviceBytesMax = int64_t{256} << 20;
// The least and the most that a launch is believed to take in a graph, beside the page that CUDA
// takes memory by: the launch itself with its argument is some 300 bytes. What is measured beyond
// it is what others took at the same time. Guesses; never measured.
inline constexpr int64_t kGraphLaunchBytesMin = 256;
inline constexpr int64_t kGraphLaunchBytesMax = int64_t{16} << 10;
inline constexpr int64_t kGraphPageBytes = int64_t{2} << 20;
// No graph is made when less is free: a library that is opened later cannot do without the last of
// the memory, graphs can be done without.
inline constexpr int64_t kGraphFreeBytesMin = int64_t{64} << 20;
// Lists seen once that are remembered, by some 20 bytes each: a step has up to some hundreds, and
// some steps of prompts may pass between two decode steps of one shape.
inline constexpr int64_t kListsSeen = 4096;

// The larger of the two transfers with which a link between stages is tried before it is used: past
// the sizes for which NCCL has ways of their own.
inline constexpr int64_t kLinkConnectBytes = int64_t{1} << 20;

// Adjusted logits and items of attention are rounded up by empty ones, so that their number, and
// with it the launch, stays the same for many steps. An empty item's block ends at once: 16 of them
// for each of eight KV heads are one block for each multiprocessor.
inline constexpr auto kAdjustmentsTogether = kGpuAdjustmentsTogether;
inline constexpr auto kItemsTogether = kGpuItemsTogether;
static_assert(kAdjustmentsTogether == kRowThreads);

}  // namespace tutti::kernels::cuda
