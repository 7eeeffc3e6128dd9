// Every bound of the worker, with where it comes from. What arrives over a link is checked against
// these before memory is spent on it.
#pragma once

#include <cstdint>

#include "transport/limits.h"

namespace tutti {

// Activations are cut into whole rows of at most kPayloadChunkBytes together, so one row must fit:
// 262,144 values of 32 bits, far above any hidden size.
inline constexpr int64_t kActivationRowBytesMax = kPayloadChunkBytes;

// Steps a worker keeps that it cannot run yet. A coordinator keeps about one step per stage in
// flight and one or two more to hide the control round trip; twice the stages and a handful is
// never reached in good order.
inline constexpr int32_t StepsAheadMax(int32_t num_stages) { return 2 * num_stages + 8; }

// Activation frames kept for an epoch whose assign_shard has not come yet. The previous stage can
// be at most one pipeline fill ahead; 64 MiB is 16 steps of 512 rows of 8 KiB.
inline constexpr int64_t kEarlyActivationBytesMax = int64_t{64} << 20;
inline constexpr int64_t kEarlyActivationFramesMax = 1024;

// Stages and ranks of a pipeline: more than any model has layers, small enough that products of
// limits fit 32 bits.
inline constexpr int32_t kStagesMax = 1024;
// KV slots per block: a multiple of 16 so that attention tiles never straddle blocks unevenly.
inline constexpr int32_t kBlockSizeMultiple = 16;
inline constexpr int32_t kBlockSizeMax = 4096;
// Blocks of a shard: 2^30 tokens in blocks of 16. With the largest block, 2^20 values per key and
// f32 the cache of a layer stays at 2^61 bytes, so sizes fit int64_t before memory says no.
inline constexpr int32_t kBlocksMax = 1 << 26;
// Rows of one step. 65,536 rows of 8,192 f32 values are 2 GiB: nobody wants a larger one.
inline constexpr int32_t kBatchTokensMax = 1 << 16;
inline constexpr int32_t kSequencesMax = 1 << 16;
// Positions are 32-bit and must survive being doubled.
inline constexpr int32_t kModelLenMax = 1 << 30;

// Biased token ids of one sequence, and alternatives reported per token. The public API allows
// fewer of both; these only bound what a step may cost.
inline constexpr int32_t kLogitBiasMax = 1 << 16;
inline constexpr uint32_t kTopLogprobsMax = 1024;

// Rows whose logits are computed at once. Each slice reads the head's weights again, so it should
// hold the sampled rows of a usual step; 16 rows of 152,064 f32 logits are 9.7 MB.
inline constexpr int64_t kLogitRowsMax = 16;

}  // namespace tutti
