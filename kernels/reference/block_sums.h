// The class cpu-bf16block, element by element: its definition as plain code, to which every way of
// computing it is compared bit by bit (docs/decisions/0075-sums-of-blocks.md).
//
// Thread: any. The functions change MXCSR while they run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace tutti::kernels {

// A number as the class multiplies it: rounded to bf16, a denormal before that to a zero of its
// sign.
float RoundOperand(float x);

// One leaf: from +0 on, for each block of 32 of the elements, a chain of fused multiply-adds over
// its even elements and one over its odd ones, both from +0; their sum is added. What the last
// block lacks are zeros. Denormals are taken and given as zeros.
//
// a, b: of one length, rounded (RoundOperand).
float BlockSum(std::span<const float> a, std::span<const float> b);

// Attention of one query head over the slots [0, slots).
struct BlockAttention {
  int64_t head_dim = 0;
  int64_t slots = 0;
  float scale = 0;
  const float* query = nullptr;  // [head_dim], rounded here
  // Element d of a slot's key and value.
  std::function<float(int64_t slot, int64_t d)> key, value;
};
// Tiles of kAttentionTileSlots slots from slot 0 on. In each: scores, as BlockSum over d, times
// scale; weights, e^(score - the largest so far), rounded to bf16, and their sum in 16 lanes; what
// earlier tiles have summed shrinks by e^(the largest before - the largest now); then for each
// block of 32 slots two chains as in BlockSum, over those slots of it that there are. At the end
// sum / total, a zero being +0.
void AttendInBlocks(const BlockAttention& attention, float* out);

}  // namespace tutti::kernels
