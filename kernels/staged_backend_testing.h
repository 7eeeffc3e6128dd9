// A backend of another device as the tests want it: takes views of host memory, computes on copies
// of them on the device, and copies the results back. Slow, and the same test for every backend.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace tutti::kernels {

std::unique_ptr<Backend> MakeStagedBackend(std::unique_ptr<Backend> device);

}  // namespace tutti::kernels
