// The memory of a GPU that the CUDA kernels hold beside the numbers themselves: padding, work
// space, small arrays, and CUDA's own. Placement promises with it and kernels/cuda takes by it;
// neither sees the other, so it stands here.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/step_bounds.h"

namespace tutti::gpu {

// Shapes that decide how much is taken; kernels/cuda/limits.h says where they come from.
inline constexpr int kChunkK = 32;
inline constexpr int kTileOut = 16;
inline constexpr int64_t kPlainOutPad = 32;
inline constexpr int kTileRows = 8;
inline constexpr int kStreamRows = 16;
inline constexpr int kLeafSumRows = 127;
inline constexpr int kWideRows = 64;
inline constexpr int kAttentionTile = 128;
inline constexpr int kPairs = 16;
inline constexpr int kAttentionWarps = 4;
inline constexpr int kSpreadPairs = 64;
inline constexpr int64_t kSpreadBytesMax = int64_t{256} << 20;
inline constexpr int kHeadDimMax = 256;
inline constexpr int64_t kItemsTogether = 16;
inline constexpr int64_t kAdjustmentsTogether = 256;
inline constexpr int kRememberedUploads = 4;
inline constexpr int64_t kSmallestUpload = 4096;
inline constexpr int64_t kSelectCountBytes = 16;

// Bytes of the kernels' records; kernels/cuda/cuda_backend.cc holds them to it.
inline constexpr int64_t kAttentionItemBytes = 32;
inline constexpr int64_t kFoldItemBytes = 20;
inline constexpr int64_t kCandidateBytes = 8;

// The bytes that a process loses to CUDA before it takes any: its context and our kernels. NOT
// MEASURED: no GPU was at hand, and it differs by GPU and driver; half a gigabyte is usual. Only
// plans of GPUs without a worker need it: a worker's offer is made of the memory that is free
// beside its context.
inline constexpr int64_t kContextBytes = int64_t{768} << 20;

// The share of a GPU's free memory that a worker offers unless told otherwise. The rest is for
// memory that no plan counts: whole pages behind each allocation, other users of the GPU.
inline constexpr double kOfferedShare = 0.9;

inline constexpr int64_t OfferOf(int64_t free_bytes) {
  return static_cast<int64_t>(kOfferedShare * static_cast<double>(free_bytes));
}
// The offer that is expected of a worker with a whole GPU.
inline constexpr int64_t UsableBytes(int64_t gpu_bytes) {
  return OfferOf(std::max<int64_t>(0, gpu_bytes - kContextBytes));
}
// The smallest GPU of which that many bytes are usable.
int64_t GpuForUsable(int64_t usable_bytes);

// As the KV cache pads the head; `plain`: f32 caches. 0 when no kernel takes such a head.
inline constexpr int32_t PaddedHeadDim(int64_t head_dim, bool plain) {
  if (head_dim > kHeadDimMax) return 0;
  if (plain) return static_cast<int32_t>(head_dim);
  if (head_dim <= 64) return 64;
  if (head_dim <= 96) return 96;
  return head_dim <= 128 ? 128 : 256;
}

// `items`, rounded up to a multiple of kItemsTogether or, of many, of more: at most a quarter is
// added to more than four times that. 0 stays 0; grows with `items`.
inline constexpr int64_t PaddedItems(int64_t items) {
  int64_t unit = kItemsTogether;
  while (8 * unit < items) unit *= 2;
  return (items + unit - 1) / unit * unit;
}

// Rows that the packed input of a product has room for: whole tiles, and whole kWideRows where the
// kernels for many rows copy so many at once.
inline constexpr int64_t PackedRows(int64_t rows) {
  const int64_t unit = rows > kLeafSumRows ? kWideRows : kTileRows;
  return (rows + unit - 1) / unit * unit;
}

// The facts about a shard's weights that products' memory depends on.
struct ProductBounds {
  int64_t packed_width = 0;   // k of the widest 16-bit weight, padding included
  int64_t leaf_outputs = 0;   // the most that leaves times outputs of a 16-bit weight come to
  int64_t scaled_leaves = 0;  // the most leaves of an f16 weight

  //   packed: k of the weight, each leaf padded to kChunkK
  void Cover(int64_t packed, int64_t leaves, int64_t out_features, DType dtype);
};

// Bytes of every work space of the backend.
struct WorkBytes {
  int64_t packed_rows = 0, row_scales = 0, leaf_sums = 0;
  int64_t record_values = 0, record_sums = 0;
  int64_t carried = 0;  // rows that enter, and as much again for those that leave
  int64_t results = 0;
  int64_t choice = 0;
  int64_t total() const {
    return packed_rows + row_scales + leaf_sums + record_values + record_sums + 2 * carried +
           results + choice;
  }
};
WorkBytes WorkBytesOf(const StepBounds& bounds, const ProductBounds& products);

// Bytes of one array of each kind that the host sends.
struct ArrayBytes {
  int64_t rows = 0;  // one number for each row of a step
  int64_t expert_rows = 0;
  int64_t blocks = 0;  // block tables
  int64_t items = 0;   // each of the attention's two lists
  int64_t folds = 0;
  int64_t vocabulary = 0;  // one number for each logit of a row, and one
  int64_t frequencies = 0;
  // Of all of them on the device: each kind is remembered kRememberedUploads times.
  int64_t total() const;
};
ArrayBytes ArrayBytesOf(const StepBounds& bounds);

// Taken where a stage has several ranks: in it arrive other ranks' values, some thousand rows of a
// large model at a time, so that longer exchanges cost nothing by being cut.
inline constexpr int64_t kExchangeWorkBytes = int64_t{16} << 20;

// Steps whose rows may be on their way from, and to, each neighbouring stage's GPU: one that is
// computed with while the next arrives.
inline constexpr int64_t kLinkSlots = 2;

// Everything that Backend::Reserve takes.
inline int64_t OperatorBytes(const StepBounds& bounds, const ProductBounds& products) {
  return WorkBytesOf(bounds, products).total() + ArrayBytesOf(bounds).total();
}

}  // namespace tutti::gpu
