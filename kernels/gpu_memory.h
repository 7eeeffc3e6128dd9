// The memory that the CUDA kernels need on a GPU beside weights and KV cache: padding, work space,
// small arrays, and CUDA's own share. Placement promises memory by this arithmetic and kernels/cuda
// allocates by it; a target of its own, with which no kernel comes.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/dtype.h"
#include "base/step_bounds.h"

namespace tutti::kernels {

// Shapes that decide how much memory is needed; kernels/cuda/limits.h says where they come from.
inline constexpr int kGpuChunkK = 32;
inline constexpr int kGpuTileOut = 16;
inline constexpr int64_t kGpuPlainOutPad = 32;
inline constexpr int kGpuTileRows = 8;
inline constexpr int kGpuStreamRows = 16;
inline constexpr int kGpuLeafSumRows = 127;
inline constexpr int kGpuWideRows = 64;
inline constexpr int kGpuAttentionTile = 128;
inline constexpr int kGpuPairs = 16;
inline constexpr int kGpuAttentionWarps = 4;
inline constexpr int kGpuSpreadPairs = 64;
inline constexpr int64_t kGpuSpreadBytesMax = int64_t{256} << 20;
inline constexpr int kGpuHeadDimMax = 256;
inline constexpr int64_t kGpuItemsTogether = 16;
inline constexpr int64_t kGpuAdjustmentsTogether = 256;
inline constexpr int kGpuRememberedUploads = 4;
inline constexpr int64_t kGpuSmallestUpload = 4096;
inline constexpr int64_t kGpuSelectCountBytes = 16;

// Bytes of the kernels' records; kernels/cuda/cuda_backend.cc holds them to it.
inline constexpr int64_t kGpuAttentionItemBytes = 32;
inline constexpr int64_t kGpuFoldItemBytes = 20;
inline constexpr int64_t kGpuCandidateBytes = 8;

// Bytes of what sampling asks about rows of so many logits at a time: all candidates of one row, or
// the first of many; of small vocabularies what a step of some rows asks.
inline constexpr int64_t kGpuResultBytesMin = int64_t{64} << 10;
inline constexpr int64_t GpuResultBytes(int64_t vocab) {
  return std::max(kGpuSelectCountBytes + vocab * kGpuCandidateBytes, kGpuResultBytesMin);
}

// Memory that CUDA takes in a process before our first allocation: its context and our kernels. NOT
// MEASURED: no GPU was at hand, and it differs by GPU and driver; half a gigabyte is usual. Only
// `tutti plan` for GPUs without a worker needs it: a worker offers a share of the memory that is
// free beside its context.
inline constexpr int64_t kGpuContextBytes = int64_t{768} << 20;

// GPU memory for the class that multiplies many rows by cuBLASLt: the library's work space, as much
// as NVIDIA advises for compute capability 9.0 and later, one product at a time; and the library's
// kernels, which come to the GPU when they are first needed. The latter is NOT MEASURED: what is
// loaded depends on the shapes and on the library. Neither is in what such a worker offers.
inline constexpr int64_t kGpuCublasWorkSpaceBytes = int64_t{32} << 20;
inline constexpr int64_t kGpuCublasCodeBytes = int64_t{256} << 20;

// The share of a GPU's free memory that a worker offers unless told otherwise. The rest is for
// memory that no placement counts: whole pages behind each allocation, other users of the GPU.
inline constexpr double kGpuOfferedShare = 0.9;

inline constexpr int64_t GpuOfferOf(int64_t free_bytes) {
  return static_cast<int64_t>(kGpuOfferedShare * static_cast<double>(free_bytes));
}
// The bytes that a process takes of a GPU before it offers the rest.
inline constexpr int64_t GpuBytesNotOffered(bool cublas) {
  return kGpuContextBytes + (cublas ? kGpuCublasWorkSpaceBytes + kGpuCublasCodeBytes : 0);
}
// The bytes that a worker is expected to offer of a whole GPU.
//   cublas: it multiplies many rows by cuBLASLt
inline constexpr int64_t UsableGpuBytes(int64_t gpu_bytes, bool cublas = false) {
  return GpuOfferOf(std::max<int64_t>(0, gpu_bytes - GpuBytesNotOffered(cublas)));
}
// The smallest GPU of which that many bytes are usable.
int64_t GpuBytesForUsable(int64_t usable_bytes, bool cublas = false);

// The head's dimension as the KV cache pads the head; `plain`: f32 caches. 0 when no kernel takes
// such a head.
inline constexpr int32_t GpuPaddedHeadDim(int64_t head_dim, bool plain) {
  if (head_dim > kGpuHeadDimMax) return 0;
  if (plain) return static_cast<int32_t>(head_dim);
  if (head_dim <= 64) return 64;
  if (head_dim <= 96) return 96;
  return head_dim <= 128 ? 128 : 256;
}

// `items`, rounded up to a multiple of kGpuItemsTogether or, of many, of more: at most a quarter is
// added to more than four times that. 0 stays 0; grows with `items`.
inline constexpr int64_t GpuPaddedItems(int64_t items) {
  int64_t unit = kGpuItemsTogether;
  while (8 * unit < items) unit *= 2;
  return (items + unit - 1) / unit * unit;
}

// Rows that the packed input of a product has room for: whole tiles, and whole kGpuWideRows where
// the kernels for many rows copy so many at once.
inline constexpr int64_t GpuPackedRows(int64_t rows) {
  const int64_t unit = rows > kGpuLeafSumRows ? kGpuWideRows : kGpuTileRows;
  return (rows + unit - 1) / unit * unit;
}

// The largest sizes among the weights of a shard, by which the work space of products is counted.
struct GpuProductBounds {
  int64_t packed_width = 0;   // k of the widest 16-bit weight, padding included
  int64_t leaf_outputs = 0;   // the most that leaves times outputs of a 16-bit weight come to
  int64_t scaled_leaves = 0;  // the most leaves of an f16 weight

  //   packed: k of the weight, each leaf padded to kGpuChunkK
  void Cover(int64_t packed, int64_t leaves, int64_t out_features, DType dtype);
};

// Bytes of every work space of the backend.
struct GpuWorkBytes {
  int64_t packed_rows = 0, row_scales = 0, leaf_sums = 0;
  int64_t record_values = 0, record_sums = 0;
  int64_t carried = 0;  // of activations that arrive, and as much of those that leave
  int64_t results = 0;
  int64_t choice = 0;
  int64_t total() const {
    return packed_rows + row_scales + leaf_sums + record_values + record_sums + 2 * carried +
           results + choice;
  }
};
GpuWorkBytes GpuWorkBytesOf(const StepBounds& bounds, const GpuProductBounds& products);

// Bytes of one array of each kind that the host sends.
struct GpuArrayBytes {
  int64_t rows = 0;  // one number for each row of a step
  int64_t expert_rows = 0;
  int64_t blocks = 0;  // block tables
  int64_t items = 0;   // each of the attention's two lists
  int64_t folds = 0;
  int64_t vocabulary = 0;  // one number for each logit of a row, and one
  int64_t frequencies = 0;
  // The bytes of all of them on the device: each kind is remembered kGpuRememberedUploads times.
  int64_t total() const;
};
GpuArrayBytes GpuArrayBytesOf(const StepBounds& bounds);

// Taken where a stage has several ranks: in it arrive other ranks' values, some thousand rows of a
// large model at a time, so that longer exchanges cost nothing by being cut.
inline constexpr int64_t kGpuExchangeWorkBytes = int64_t{16} << 20;

// Steps whose rows may be on their way from, and to, each neighbouring stage's GPU: one that is
// computed with while the next arrives.
inline constexpr int64_t kGpuLinkSlots = 2;

// Everything that Backend::Reserve takes.
inline int64_t GpuOperatorBytes(const StepBounds& bounds, const GpuProductBounds& products) {
  return GpuWorkBytesOf(bounds, products).total() + GpuArrayBytesOf(bounds).total();
}

}  // namespace tutti::kernels
