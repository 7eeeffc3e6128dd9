// Whether this processor gives the same bits by both ways to multiply bf16. Which way is used is
// chosen by time, and a choice by time must never change a bit; no manual promises what f32
// instructions and the dot have in common, and makers were compared on a few processors only.
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace tutti::kernels::cpu {

// Multiplies matrices by both, whose numbers are of all sizes, denormals and sums that are flushed
// among them. Takes about a millisecond.  REQUIRES: kernels.multiplies_both_ways
bool BothWaysAgree(const KernelTable& kernels);

}  // namespace tutti::kernels::cpu
