// The count of slices that one thread has done (kernels/work_meter.h). Each thread writes its own,
// on a cache line of its own; another thread reads them.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {

// Builtins instead of std::atomic, whose functions the linker could take from a file compiled for
// instructions that the machine lacks.
TUTTI_INLINE void CountSlice(uint64_t* slices) {
  __atomic_store_n(slices, __atomic_load_n(slices, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

}  // namespace tutti::kernels::cpu
