// The real device behind runtime.h.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

// A queue of transfers goes before queues of operators where both want the same multiprocessors: a
// few blocks that others wait for, beside a step that has thousands.
enum class QueueKind { kOperators, kTransfers };

// RESOURCE_EXHAUSTED or UNAVAILABLE when the device cannot be used, with CUDA's reason.
absl::StatusOr<std::unique_ptr<Runtime>> OpenDevice(int32_t index,
                                                    QueueKind kind = QueueKind::kOperators);

}  // namespace tutti::kernels::cuda
