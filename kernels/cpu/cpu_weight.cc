#include "kernels/cpu/cpu_weight.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/slice_count.h"
#include "kernels/float_formats.h"
#include "kernels/host_buffer.h"

namespace tutti::kernels::cpu {
namespace {

// Pairs packed at once: 16 columns by 16 pairs of bf16 are 16 cache lines read and 16 written.
constexpr int64_t kPackPairs = 16;

// Where row n of the stacked parts begins; null for the padding behind the last.
std::vector<const uint8_t*> SourceRows(const WeightSource& source, int64_t padded_rows) {
  std::vector<const uint8_t*> rows;
  rows.reserve(static_cast<size_t>(padded_rows));
  for (const TensorView& part : source.parts) {
    const int64_t stride = part.row_stride * DTypeBytes(part.dtype);
    for (int64_t r = 0; r < part.rows; ++r) {
      rows.push_back(static_cast<const uint8_t*>(part.data) + r * stride);
    }
  }
  rows.resize(static_cast<size_t>(padded_rows), nullptr);
  return rows;
}

// Moves 16 columns by `pairs` pairs of k to units that are `unit_step` bytes apart. Pair: the two
// elements as one integer.
template <class Pair>
void MovePairs(const uint8_t* const* rows, int64_t offset, int64_t pairs, DType dtype,
               int64_t unit_step, uint8_t* out) {
  constexpr int64_t kElementBytes = sizeof(Pair) / 2;
  Pair block[kPackPairs][kUnitColumns] = {};
  for (int64_t column = 0; column < kUnitColumns; ++column) {
    if (rows[column] == nullptr) continue;
    const uint8_t* from = rows[column] + offset;
    for (int64_t p = 0; p < pairs; ++p) {
      std::memcpy(&block[p][column], from + p * sizeof(Pair), sizeof(Pair));
    }
  }
  for (int64_t p = 0; p < pairs; ++p, out += unit_step) {
    if (dtype == DType::kBF16) {
      std::memcpy(out, block[p], sizeof(block[p]));
      continue;
    }
    uint8_t unit[sizeof(block[p])];
    const uint8_t* from = reinterpret_cast<const uint8_t*>(block[p]);
    for (int64_t column = 0; column < kUnitColumns; ++column) {
      std::memcpy(unit + column * kElementBytes, from + 2 * column * kElementBytes, kElementBytes);
      std::memcpy(unit + (kUnitColumns + column) * kElementBytes,
                  from + (2 * column + 1) * kElementBytes, kElementBytes);
    }
    std::memcpy(out, unit, sizeof(unit));
  }
}

// Columns [16 u, 16 u + 16) of one leaf.
void PackLeaf(const uint8_t* const* rows, int64_t begin, int64_t end, DType dtype, uint8_t* out) {
  const int64_t element = DTypeBytes(dtype);
  const int64_t unit_step = kGroupUnits * UnitBytes(dtype);
  const int64_t whole = (end - begin) / 2;
  for (int64_t pair = 0; pair < whole; pair += kPackPairs) {
    const int64_t pairs = std::min(kPackPairs, whole - pair);
    const int64_t offset = (begin + 2 * pair) * element;
    if (element == 2) {
      MovePairs<uint32_t>(rows, offset, pairs, dtype, unit_step, out + pair * unit_step);
    } else {
      MovePairs<uint64_t>(rows, offset, pairs, dtype, unit_step, out + pair * unit_step);
    }
  }
  if ((end - begin) % 2 != 0) {
    // The last k alone; its partner stays the zero the memory was born with.
    for (int64_t column = 0; column < kUnitColumns; ++column) {
      if (rows[column] == nullptr) continue;
      std::memcpy(out + whole * unit_step + UnitOffset(dtype, column, false),
                  rows[column] + (end - 1) * element, static_cast<size_t>(element));
    }
  }
}

void PackGroup(const CpuWeight& weight, const uint8_t* const* rows, int64_t group) {
  const int64_t pair_bytes = kGroupUnits * UnitBytes(weight.dtype());
  uint8_t* out = weight.data() + group * weight.pairs().total() * pair_bytes;
  for (int64_t leaf = 0; leaf < weight.pairs().leaves(); ++leaf) {
    for (int64_t unit = 0; unit < kGroupUnits; ++unit) {
      PackLeaf(rows + group * kGroupColumns + unit * kUnitColumns, weight.leaf_begin()[leaf],
               weight.leaf_begin()[leaf + 1], weight.dtype(),
               out + weight.pairs().begin(leaf) * pair_bytes + unit * UnitBytes(weight.dtype()));
    }
  }
}

}  // namespace

CpuWeight::CpuWeight(WeightShape shape, std::unique_ptr<DeviceBuffer> data)
    : shape_(std::move(shape)), pairs_(shape_.leaf_begin), data_(std::move(data)) {}

void CpuWeight::ReadRow(int64_t row, float* out) const {
  const int64_t pair_bytes = kGroupUnits * UnitBytes(dtype());
  const int64_t column = row % kUnitColumns;
  const uint8_t* units = data() + row / kGroupColumns * pairs_.total() * pair_bytes +
                         row % kGroupColumns / kUnitColumns * UnitBytes(dtype());
  const int64_t even = UnitOffset(dtype(), column, false);
  const int64_t odd = UnitOffset(dtype(), column, true);
  for (int64_t leaf = 0; leaf < pairs_.leaves(); ++leaf) {
    const uint8_t* unit = units + pairs_.begin(leaf) * pair_bytes;
    const int64_t end = shape_.leaf_begin[leaf + 1];
    for (int64_t k = shape_.leaf_begin[leaf]; k < end; k += 2, unit += pair_bytes) {
      out[k] = LoadAsF32(unit + even, dtype(), 0);
      if (k + 1 < end) out[k + 1] = LoadAsF32(unit + odd, dtype(), 0);
    }
  }
}

absl::StatusOr<std::unique_ptr<Weight>> PackWeight(const WeightSource& source, ThreadPool* pool) {
  TUTTI_ASSIGN_OR_RETURN(WeightShape shape, CheckWeightSource(source));
  const int64_t bytes =
      PackedBytes(shape.out_features, shape.in_features, shape.dtype, shape.leaf_begin);
  auto data = AllocateHost(bytes);
  if (!data.ok()) return Annotate(data.status(), "pack weight " + source.name);
  auto weight = std::make_unique<CpuWeight>(std::move(shape), *std::move(data));
  const auto rows = SourceRows(source, weight->groups() * kGroupColumns);
  pool->Split(weight->groups(), false, [&](int thread, int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      PackGroup(*weight, rows.data(), group);
      CountSlice(pool->slices(thread));
    }
  });
  return weight;
}

}  // namespace tutti::kernels::cpu
