// Plain loops in f64, obviously right and slow: the oracle every other backend is tested against.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace tutti::kernels {

// `in_blocks`: products and attention over bf16 are computed as the class cpu-bf16block defines
// them (block_sums.h), bit for bit; its class is "reference-bf16block".
std::unique_ptr<Backend> CreateReferenceBackend(bool in_blocks);

}  // namespace tutti::kernels
