// Attention of many rows by wgmma, for compute capability 9.0. The bits are those of attention.h
// wherever ProbeWgmma has found that the instructions give the same: its tiles, its sums, its fold.
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/attention_args.h"

namespace tutti::kernels::cuda {

// Whether there is a kernel for heads of this size.
bool HasWideAttention(const KvLayout& layout, int32_t head_dim);

// As LaunchAttention, for items of up to kWidePairs. args.warps: not used
//   REQUIRES: HasWideAttention; no item is computed apart
void LaunchWideAttention(DType type, const AttentionArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
