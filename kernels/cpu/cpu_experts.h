// Choice of experts over one row of router logits; see kernels/family_operators.h.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/kernel_table.h"

namespace tutti::kernels::cpu {

// experts, shares [count], ascending by expert.
void SelectExpertsOfRow(const KernelTable& kernels, const float* logits, int64_t cols,
                        bool normalise, std::span<int32_t> experts, std::span<float> shares);

}  // namespace tutti::kernels::cpu
