// Causal attention over the paged cache, as kernels.
//
// One voice by construction: a tile of kAttentionTile slots is attended to from nothing, giving the
// largest score, the sum of the weights and the weighted values; tiles are folded in order of their
// slots by Fold. Whether a block walks all tiles of a row or each tile has a block of its own, the
// same function does each.
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/attention_args.h"

namespace tutti::kernels::cuda {

// 16-bit caches: attends to args.items, of which none has a record.
void LaunchAttention(DType type, const AttentionArgs& args, Launcher* launcher);

// The same of items of at most kPairs pairs, which may have records.
void LaunchFewAttention(DType type, const AttentionArgs& args, Launcher* launcher);
// The same with more blocks side by side, each with less on its way: for crowds of them (limits.h).
void LaunchCrowdedAttention(DType type, const AttentionArgs& args, Launcher* launcher);

// Folds the records of args.folds.
void LaunchFold(const AttentionArgs& args, Launcher* launcher);

// f32 caches, row by row.
void LaunchPlainAttention(const PlainAttentionArgs& args, Launcher* launcher);

void LaunchWriteKv(const WriteKvArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
