// Addition of products in the emulated tensor cores.
//
// In order: one float addition after another, so that kernels which walk k differently differ in
// bits. Truncating: as real ones are known to add, but with the fewest bits of any (Fasi, Higham,
// Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021): the terms of eight
// products and the sum so far are cut, not rounded, to 24 bits below the largest of them, added
// exactly, and the result is cut to a float. Tolerances that hold there hold on every generation.
#pragma once

namespace tutti::kernels::cuda::emulated {

// By TUTTI_EMULATED_TENSOR_CORE=truncating in the environment.
bool TensorCoresTruncate();

// sum + left[0] * right[0] + … + left[15] * right[15], truncating.
float TruncatingSum(float sum, const float (&left)[16], const float (&right)[16]);

}  // namespace tutti::kernels::cuda::emulated
