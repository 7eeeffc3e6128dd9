// The sampling operators of the reference backend; see kernels/backend.h for their contracts.
#pragma once

#include "kernels/backend.h"

namespace tutti::kernels {

void ReferenceAdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments);
void ReferenceArgMax(TensorView logits, std::span<int32_t> out);
void ReferenceLogSumExp(TensorView logits, double inverse_temperature, std::span<double> out);
void ReferenceTopCandidates(TensorView logits, int64_t row, int64_t count,
                            std::vector<Candidate>* out);

// The chosen.size() best, in ascending order: larger logits first, then smaller indices, NaN last.
void ReferenceChooseExperts(const float* logits, int64_t count, std::span<int32_t> chosen);

}  // namespace tutti::kernels
