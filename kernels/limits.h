// Sizes that shape the kernels, each with where it comes from. Constants only: the vector kernels
// include this.
#pragma once

#include <cstdint>

namespace tutti::kernels {

// The x86-64 large page. Smaller buffers cannot hold one.
inline constexpr int64_t kLargePageBytes = 2 << 20;

// More threads than any machine we know has cores; a typo such as --threads=10000 should not start
// them.
inline constexpr int kThreadsMax = 512;

// How long an idle thread of the pool spins before it sleeps. Between two operators of a step pass
// a few microseconds; waking a sleeping thread costs about 50. Longer spinning would only take time
// from another process on the core.
inline constexpr int kThreadSpinMicros = 40;

// Rows of a register tile: with 16 AVX2 registers, 6 rows of 16 columns take 12 accumulators, 2
// registers of weights and 1 of input. Eight rows would not fit, four would load as often as they
// multiply.
inline constexpr int64_t kTileRows = 6;

// Rows that share one pass over a group of weights, at most and unless a knob says fewer
// (cpu/cpu_knobs.h). Their accumulators, 64 floats a row, must stay in L2 beside the weights:
// 192 * 256 bytes = 48 KiB of 512 KiB. A multiple of kTileRows.
inline constexpr int64_t kRowBlock = 192;

// Pairs of k that a tile walks before its accumulators go back to memory, unless a knob says
// otherwise. 64 pairs of a group of bf16 are 16 KiB, so half of a 32 KiB L1 cache holds them while
// every tile of the row block passes over them.
inline constexpr int64_t kPiecePairs = 64;

// How far ahead of the multiplication a single pass fetches each stream of weights, unless a knob
// says otherwise. Measured on Zen 3: with four streams 256 takes a fiftieth less than nothing, and
// a fifteenth less than 1 KiB, which is best for one stream. On Zen 4 fetching cost one stream 20
// to 35 %.
inline constexpr int64_t kStreamAheadBytes = 256;

// The same of products in AMX's tiles, whose loads the hardware fetches less for: a block of a
// group into the first cache, and what lies so much behind it into the second. Measured on a Xeon,
// of the speed of plain reads in the same run: 0.5 without, 0.7 with the first, 0.8 with both.
inline constexpr int64_t kTileAheadBytes = 4096;
inline constexpr int64_t kTileFarBytes = 12288;

// Groups of weights that a single pass reads at once, unless a knob says otherwise, and how much of
// each in turn. The hardware fetches ahead within a page of 4 KiB, for several pages at a time: one
// thread of a Zen 3 reads four groups so in 0.83 of the time of one, two threads in 0.95
// (docs/decisions/0074-several-streams.md).
inline constexpr int64_t kStreams = 4;
inline constexpr int64_t kStreamsMax = 8;
inline constexpr int64_t kStreamTurnBytes = 1024;

// Products in AMX's tiles read the packed rows once for every 32 columns of weights: as many rows
// share a pass over the weights as fit so many bytes of a second cache of 2 MiB, at least so many
// that the weights, read from memory for each block of rows, take less time than the multiplication
// (128 rows at 2 TFLOP/s: 16 GB/s). Multiples of 32.
inline constexpr int64_t kAmxPanelBytes = 1 << 20;
inline constexpr int64_t kAmxRowBlockLeast = 128;
inline constexpr int64_t kAmxRowBlockMost = 512;
// Pairs of tiles of rows from which on the weights are first laid out as tiles: fewer do not make
// up for it.
inline constexpr int64_t kAmxPanelPairs = 2;
// From so many bytes on a product's output goes around the caches: written through them, each line
// would be read from memory first, and push out packed rows. Half of a second cache of 2 MiB.
inline constexpr int64_t kAmxAroundBytes = 1 << 20;

// (row, head) pairs of an item of attention in AMX's tiles: two pairs of tiles, for which values
// are gathered once.
inline constexpr int64_t kAmxAttentionEntries = 64;

// Pairs of k of a quantised weight that become bf16 at once: 64 of a group are 16 KiB, so the first
// cache holds them beside the codes; whole blocks of AMX's tiles. And how far ahead codes are
// fetched.
inline constexpr int64_t kQuantisedPiecePairs = 64;
inline constexpr int64_t kQuantisedAheadBytes = 4096;

// How far ahead codes are fetched that are multiplied from registers, whatever was measured for
// weights of 16 bits. On Zen 5, 1 row of int4: 6.4 ms without, 5.9 at 4 KiB, 5.2 at 8, 5.4 at 16;
// 8 rows of int8, in two passes over each strip: 17.4, 11.4, 8.5, 8.8.
inline constexpr int64_t kFewRowsAheadBytes = 8192;

// Inputs of a product of integers of 8 bits at most, so that its sums fit 32: 127 * 128 of each.
inline constexpr int64_t kIntegerInputsMax = 1 << 17;

// Slots of an attention tile, from absolute slot 0: part of the numerics, never to be tuned per
// machine. Long enough that rescaling the output once per tile costs little, short enough that a
// tile's scores of six rows stay in L1.
inline constexpr int64_t kAttentionTileSlots = 128;

// (row, head) pairs that walk a sequence's cache together. Their state (query, output, 2 KiB each
// at head_dim 256) must stay in L2 with a tile of keys and values.
inline constexpr int64_t kAttentionEntries = 48;

// Work below this is done by the calling thread alone: handing a share to another thread takes
// about 2 us, in which one core touches some 16 Ki elements.
inline constexpr int64_t kSerialElements = 16 << 10;
// The same for a product of few rows, which reads its weights once: 2 us at 25 GB/s.
inline constexpr int64_t kSerialWeightBytes = 48 << 10;

// Bytes that a probe of the read bandwidth reads: eight times the largest cache of the machines we
// know (32 MiB), so that at most an eighth of it could come from there.
inline constexpr int64_t kProbeBytes = 256 << 20;
// Rounds of a probe of arithmetic: 12 instructions each, about 10 ms in all.
inline constexpr int64_t kProbeRounds = 5 << 20;

}  // namespace tutti::kernels
