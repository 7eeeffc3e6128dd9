// Plain loops in f64, obviously right and slow: the oracle every other backend is tested against.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace tutti::kernels {

std::unique_ptr<Backend> CreateReferenceBackend();

}  // namespace tutti::kernels
