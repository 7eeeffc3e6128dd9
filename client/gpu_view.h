// A worker's GPU as people read of it, by its driver's account.
#pragma once

#include <string>

#include "tutti/v1/cluster.pb.h"

namespace tutti::client {

// "gpu of w0: NVIDIA H200, 69.0 of 80.0 GiB held (…), 37 % busy, 412 W of 700 W, 61 °C": a line, or
// nothing where the driver has said nothing. Figures that are old say so.
//   held  by the worker's shard; null: it has none
std::string GpuText(const v1::WorkerStatus& worker, const v1::MemoryBytes* held);

// The GPUs of all workers in *status, one each; empty where none has a GPU whose driver could be
// asked.
std::string RenderGpus(const v1::GetStatusResponse& status);

}  // namespace tutti::client
