// The GPUs of workers, as their drivers tell of them, as metrics.
//
// Thread: any.
#pragma once

#include "metrics/exposition.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

// The GPUs of all workers in *status, by worker. What a driver does not say is left out.
void WriteGpus(const v1::GetStatusResponse& status, metrics::Exposition* to);

}  // namespace tutti::coordinator
