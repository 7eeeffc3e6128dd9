#include "kernels/cpu/kv_write.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/kv_layout.h"
#include "kernels/float_formats.h"

namespace tutti::kernels::cpu {
namespace {

// Elements of a head as bits of the cache's type.
template <DType kType>
using Bits = std::conditional_t<kType == DType::kF32, uint32_t, uint16_t>;

template <DType kType>
void ToBits(const float* from, int64_t count, Bits<kType>* to) {
  for (int64_t d = 0; d < count; ++d) {
    const float x = NumberOrNan(kType, from[d]);
    if constexpr (kType == DType::kF32) to[d] = std::bit_cast<uint32_t>(x);
    if constexpr (kType == DType::kBF16) to[d] = F32ToBf16(x);
    if constexpr (kType == DType::kF16) to[d] = F32ToF16(x);
  }
}

// Elements converted at once.
constexpr int64_t kBatch = 64;

// Keys: the slot is the column of its group of 16, d runs over the units.
template <DType kType>
void WriteKey(const float* from, int64_t head_dim, int64_t slot, uint8_t* group) {
  const int64_t even = UnitOffset(kType, slot % kUnitColumns, false);
  const int64_t odd = UnitOffset(kType, slot % kUnitColumns, true);
  Bits<kType> bits[kBatch];
  for (int64_t begin = 0; begin < head_dim; begin += kBatch) {
    const int64_t count = std::min(kBatch, head_dim - begin);
    ToBits<kType>(from + begin, count, bits);
    for (int64_t d = 0; d < count; d += 2, group += UnitBytes(kType)) {
      if constexpr (kType == DType::kBF16) {  // the two lie side by side
        std::memcpy(group + even, bits + d, 2 * sizeof(bits[0]));
      } else {
        std::memcpy(group + even, bits + d, sizeof(bits[0]));
        std::memcpy(group + odd, bits + d + 1, sizeof(bits[0]));
      }
    }
  }
}

// Values: d is the column, the slot is the even or the odd half of its pair.
template <DType kType>
void WriteValue(const float* from, int64_t head_dim, int64_t slot, uint8_t* pair) {
  const bool odd = slot % 2 != 0;
  Bits<kType> bits[kBatch];
  for (int64_t begin = 0; begin < head_dim; begin += kBatch) {
    const int64_t count = std::min(kBatch, head_dim - begin);
    ToBits<kType>(from + begin, count, bits);
    for (int64_t d = 0; d < count; d += kUnitColumns, pair += UnitBytes(kType)) {
      const int64_t columns = std::min<int64_t>(kUnitColumns, count - d);
      for (int64_t c = 0; c < columns; ++c) {
        std::memcpy(pair + UnitOffset(kType, c, odd), bits + d + c, sizeof(bits[0]));
      }
    }
  }
}

// Rows outside: those of k and v are wider than what a head has of them, and come from memory.
template <DType kType>
void WriteHeads(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                const KvLayer& cache, int64_t head_begin, int64_t head_end) {
  const KvLayout layout(cache.shape);
  const int64_t head_dim = cache.shape.head_dim;
  uint8_t* const base = static_cast<uint8_t*>(cache.data);
  for (int64_t s = 0; s < batch.sequences(); ++s) {
    for (int64_t r = batch.row_begin[s]; r < batch.row_begin[s + 1]; ++r) {
      const int64_t position = batch.first_position[s] + r - batch.row_begin[s];
      const int64_t slot = position % cache.shape.block_size;
      const int64_t block = batch.blocks[batch.block_begin[s] + position / cache.shape.block_size];
      for (int64_t head = head_begin; head < head_end; ++head) {
        uint8_t* keys = base + block * layout.block_bytes + head * layout.head_bytes;
        uint8_t* values = keys + layout.key_bytes;
        WriteKey<kType>(k.f32(r) + head * head_dim, head_dim, slot,
                        keys + slot / kUnitColumns * layout.key_group_bytes);
        WriteValue<kType>(v.f32(r) + head * head_dim, head_dim, slot,
                          values + slot / 2 * layout.value_units * layout.unit_bytes);
      }
    }
  }
}

}  // namespace

void WriteKvHeads(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                  const KvLayer& cache, int64_t head_begin, int64_t head_end) {
  switch (cache.shape.dtype) {
    case DType::kF32:
      return WriteHeads<DType::kF32>(k, v, batch, cache, head_begin, head_end);
    case DType::kBF16:
      return WriteHeads<DType::kBF16>(k, v, batch, cache, head_begin, head_end);
    case DType::kF16:
      return WriteHeads<DType::kF16>(k, v, batch, cache, head_begin, head_end);
  }
}

}  // namespace tutti::kernels::cpu
