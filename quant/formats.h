// The layouts, one function each. Errors: as ReadQuantMatrix.
//
// Pure.
#pragma once

#include <string_view>

#include "base/status.h"
#include "quant/quant_config.h"
#include "quant/quant_matrix.h"
#include "quant/tensors.h"

namespace tutti::quant {

// qweight [in / per word, out]: words of codes of consecutive inputs. qzeros [groups, out / per
// word], less one in v1: one addition over whole words undoes that, borrows and all. scales
// [groups, out]. g_idx [in]: the group of each input; absent: groups in order.
absl::StatusOr<QuantMatrix> ReadGptq(const Tensors& tensors, const QuantConfig& config);

// qweight [in, out / 8]: words of codes of eight outputs, in the order 0, 2, 4, 6, 1, 3, 5, 7.
// qzeros [groups, out / 8] likewise, scales [groups, out].
absl::StatusOr<QuantMatrix> ReadAwq(const Tensors& tensors, const QuantConfig& config);

// weight [out, in] in e4m3; the tensor named by `scale`: by blocks [blocks of out, blocks of in],
// the last of which may be cut, by output [out, 1], or one for all.
absl::StatusOr<QuantMatrix> ReadFp8Blocks(const Tensors& tensors, const QuantConfig& config,
                                          std::string_view scale);

// weight [out, in] in int8, weight_scale [out, 1] or one for all.
absl::StatusOr<QuantMatrix> ReadInt8(const Tensors& tensors);

// weight_packed [out, words of in]: codes plus 2^(bits - 1), of consecutive inputs. weight_shape:
// [out, in]. weight_scale [out, groups]; weight_zero_point [words of out, groups], packed along the
// outputs; weight_g_idx [in].
absl::StatusOr<QuantMatrix> ReadPacked(const Tensors& tensors, const QuantConfig& config);

// Two e2m1 codes in a byte, the first below. MXFP4: a power of two for each 32 inputs; NVFP4: an
// e4m3 scale for each 16, and one f32 for the whole, by which compressed-tensors divides and
// ModelOpt multiplies.
absl::StatusOr<QuantMatrix> ReadFp4(const Tensors& tensors, const QuantConfig& config);

}  // namespace tutti::quant
