// The real device behind runtime.h.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

// A queue of transfers goes before queues of operators where both want the same multiprocessors: a
// few blocks that others wait for, beside a step that has thousands.
enum class QueueKind { kOperators, kTransfers };

// `on_lost` hears of a device that is lost later (lost_device.h).
// RESOURCE_EXHAUSTED or UNAVAILABLE when the device cannot be used, with CUDA's reason.
absl::StatusOr<std::unique_ptr<Runtime>> OpenDevice(int32_t index,
                                                    QueueKind kind = QueueKind::kOperators,
                                                    LostDeviceHandler on_lost = nullptr);

}  // namespace tutti::kernels::cuda
