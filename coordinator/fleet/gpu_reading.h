// The figures in workers' beats about their GPUs, checked, and as operators see it.
//
// Thread: any.
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// INVALID_ARGUMENT: numbers that cannot be, or texts that are no lines of printable ASCII.
absl::Status CheckGpuReading(const v1::GpuReading& reading);

// The part of a reading that is kept: nothing that we do not know, nor what is ours to say
// (FillCudaBytes).
v1::GpuReading KeptGpuReading(const v1::GpuReading& reading);
// The reading as it is `since` after it came.  REQUIRES: CheckGpuReading is OK
void FillGpu(const v1::GpuReading& reading, Duration since, v1::GpuReading* status);
// CUDA's own part of what the process holds.  REQUIRES: FillGpu has filled *status
//   held  of the shard
void FillCudaBytes(const v1::MemoryBytes& held, v1::GpuReading* status);

}  // namespace tutti::coordinator
