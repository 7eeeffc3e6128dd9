// The definition of products with codes (quantised_source.h) over a backend's own products with
// bf16: what is expected of a class whose sums only its own kernels can make.
#pragma once

#include "kernels/kernels_testing.h"
#include "kernels/quantised_source.h"

namespace tutti::kernels {

// Of every row of `in`.   REQUIRES: rows are not rounded; the model computes in 16 bits
Matrix ExpectedOfStrips(Backend& backend, Matrix& in, const QuantisedSource& source);

}  // namespace tutti::kernels
