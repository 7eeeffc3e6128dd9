// Memory on the host for weights, KV caches and activations.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "kernels/backend.h"

namespace tutti::kernels {

// Zeroed pages straight from the kernel, so memory counts as resident only once it is written.
// Buffers of a large page (2 MiB) or more are aligned to one and ask for large pages, which makes
// streaming reads 10-20 % faster; the length is not rounded up to them, so the resident size stays
// what was asked for, up to a 4 KiB page.
//
// RESOURCE_EXHAUSTED with the bytes asked for; INVALID_ARGUMENT for a negative number.  Thread:
// any.
absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocateHost(int64_t bytes);

}  // namespace tutti::kernels
