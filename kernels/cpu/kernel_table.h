// The functions that exist once per instruction set. cpu_backend.cc divides the work over threads
// and calls them; they know nothing of threads, tensors or errors.
//
// Plain data and function pointers only: the files behind a table are compiled for instructions the
// machine may lack, so nothing here may be an inline function the linker could take from them.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/code_kind.h"
#include "kernels/cpu/product_tuning.h"

namespace tutti::kernels::cpu {

// out = in * weight^T. `packed_in` is the output of pack_rows.  REQUIRES: rows > 0
struct MatMulJob {
  DType dtype;
  const uint8_t* weight;
  const int64_t* leaf_pair_begin;  // [leaves + 1]
  const int64_t* leaf_begin;       // [leaves + 1], in columns of `in`
  int64_t leaves;
  const float* in;
  int64_t in_stride;
  int64_t rows;
  void* packed_in;
  float* out;
  int64_t out_stride;
  int64_t out_cols;
  ProductTuning tuning;
};

// The same over codes (quantised_layout.h).
struct QuantisedJob {
  // In place of leaves it has strips, in units of pairs that are whole strips. Its type: f32,
  // or bf16 for a class's own way to multiply bf16.
  MatMulJob rows;
  CodeKind kind;
  DType scale_type;
  bool has_zeros;
  int64_t leaves;
  const int64_t* leaf_strip;  // [leaves + 1]: the first strip of a leaf
  const int64_t* strip_at;    // [strips + 1]: bytes from the beginning of a group
  // [rows]: packed_in holds integers (integer_rows.h), and this is what they stand for; null: it is
  // the output of pack_rows.
  const float* row_scales;
  const int32_t* row_sums;  // [strips][rows]: of integers that lie as tiles; else null
};

struct AttentionJob {
  DType dtype;
  const float* q;
  int64_t q_stride;
  float* out;
  int64_t out_stride;
  float scale;
  int64_t head_dim;
  int64_t group;  // query heads per KV head
  // The cache, see kv_layout.h.
  const uint8_t* cache;
  int64_t block_size;
  int64_t block_bytes;
  int64_t head_bytes;
  int64_t key_bytes;
  int64_t value_units;
  bool by_f32;  // as ProductTuning's
};

// Query rows of one sequence against one KV head. An entry is a (row, query head of the group),
// numbered row * group + head from the sequence's first row.
struct AttentionItem {
  int32_t kv_head;
  int64_t first_row;  // of the sequence, in q and out
  int64_t first_position;
  const int32_t* blocks;  // the sequence's block table
  int64_t entry_begin;
  int64_t entry_end;  // at most EntriesOfItem() more than entry_begin
};

struct KernelTable {
  // Lays tiles of rows out for matmul: PackedTiles(). Tiles may be packed by different threads.
  void (*pack_rows)(const MatMulJob& job, int64_t tile_begin, int64_t tile_end);
  // Lays one row out for matmul, of bf16 that is not multiplied by_f32: `values` [in] instead of
  // job.in. Null where rows are laid out by whole tiles alone.
  void (*pack_row)(const MatMulJob& job, int64_t row, const float* values);
  // Groups [begin, end) of the weight, all rows. `scratch` holds MatMulScratchFloats(pairs, leaves,
  // tuning.row_block) floats. Here and below *slices, which is the calling thread's, counts what is
  // done (slice_count.h): a block of rows of a group, or an item's rows against a tile of slots.
  void (*matmul)(const MatMulJob& job, int64_t group_begin, int64_t group_end, float* scratch,
                 uint64_t* slices);
  // The same of codes; `scratch` holds QuantisedScratchFloats.
  void (*matmul_quantised)(const QuantisedJob& job, int64_t group_begin, int64_t group_end,
                           float* scratch, uint64_t* slices);
  // `scratch` holds AttentionScratchFloats(head_dim) floats.
  void (*attend)(const AttentionJob& job, const AttentionItem& item, float* scratch,
                 uint64_t* slices);

  // One row each.
  void (*rms_norm)(const float* in, const float* weight, float epsilon, float* out, int64_t cols);
  // norm may be null. cosine, sine [head_dim / 2].
  void (*head_norm_rope)(float* row, int64_t heads, int64_t head_dim, const float* norm,
                         float epsilon, const float* cosine, const float* sine);
  void (*add)(float* x, const float* y, int64_t cols, DType round_to);
  void (*silu_mul)(const float* gate, const float* up, float* out, int64_t cols);
  void (*convert)(const void* in, DType in_type, void* out, DType out_type, int64_t cols);

  // The largest value; NaN when there is one; -Inf for no values.
  float (*largest)(const float* x, int64_t cols);
  // First index in [begin, cols) with x[i] == value; `cols` when there is none.
  int64_t (*find_equal)(const float* x, int64_t begin, int64_t cols, float value);
  // sum of exp((x[i] - shift) * factor), shift being at least the largest x.
  double (*sum_exp)(const float* x, int64_t cols, float shift, float factor);

  // Limits of the machine, for kernels/machine_probe.h. The bursts return the operations they did.
  float (*read_all)(const uint8_t* data, int64_t bytes, int64_t streams, int64_t ahead);
  int64_t (*fma_burst)(int64_t rounds);
  // Null where there is no such instruction.
  int64_t (*dot_burst)(int64_t rounds);
  int64_t (*tile_burst)(int64_t rounds);

  // Whether products of 2 to kTileRows rows read each group of weights in one pass.
  bool streams_few_rows;
  // Whether there are two ways to multiply bf16, with the same bits: ProductTuning::by_f32.
  bool multiplies_both_ways;
  // Rows of a tile of packed bf16 that is not multiplied by_f32; other tiles have kTileRows.
  int64_t row_tile;
  // Whether rows of integers are laid out as AMX's tiles where they are not multiplied by_f32.
  bool integer_tiles;
  // (row, head) pairs of an item at most, over bf16 and not by_f32; of others kAttentionEntries.
  int64_t attention_entries;
};

const KernelTable& Avx2Kernels();
const KernelTable& Avx512Kernels();
const KernelTable& Avx512Bf16Kernels();
const KernelTable& EmulatedBf16DotKernels();
const KernelTable& Avx2BlockKernels();
const KernelTable& Avx512BlockKernels();
const KernelTable& AmxKernels();

}  // namespace tutti::kernels::cpu
