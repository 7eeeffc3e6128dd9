// What was read of a quantised matrix.
#pragma once

#include <cstddef>
#include <span>

#include "model/quantised_tensors.h"

namespace tutti::quant {

// Rows by columns of one tensor, without gaps.
struct ReadPart {
  model::StoredPart stored;
  std::span<const std::byte> bytes;
};

}  // namespace tutti::quant
