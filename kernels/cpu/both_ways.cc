#include "kernels/cpu/both_ways.h"

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/growing_memory.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tiles.h"
#include "kernels/float_formats.h"

namespace tutti::kernels::cpu {
namespace {

// Matrices tried. One row, several that are read in one pass, more than a tile of rows, of AMX's
// too, and more than a pair of those: each has code of its own.
constexpr uint64_t kTried = 8;
constexpr int64_t kRows[] = {1, 4, kTileRows + 1, 2 * kTileRows + 1, 19, 37};
constexpr int64_t kRowsMax = 37;
constexpr int64_t kIn = 126, kOut = 2 * kGroupColumns;

// A bf16 number of any size whose products overflow no sum. Three in ten are denormal, or nearly.
uint16_t Wild(Random* random) {
  const int64_t sign = random->Between(0, 1) << 15;
  const int64_t exponent = random->Chance(0.3) ? random->Between(0, 3) : random->Between(60, 180);
  return static_cast<uint16_t>(sign | exponent << 7 | random->Between(0, 127));
}

struct Operands {
  std::vector<uint16_t> weight = std::vector<uint16_t>(size_t{kOut * kIn});
  std::vector<float> in = std::vector<float>(size_t{kRowsMax * kIn});
};

Operands WildOperands(uint64_t seed) {
  Operands wild;
  Random random(seed);
  for (uint16_t& x : wild.weight) x = Wild(&random);
  // With digits that are to be rounded away.
  for (float& x : wild.in) {
    const auto lower = static_cast<uint32_t>(random.Between(0, 0xffff));
    x = std::bit_cast<float>(static_cast<uint32_t>(Wild(&random)) << 16 | lower);
  }
  return wild;
}

// Sums a little below the least normal number, which only the fewer digits of a denormal would
// round up to it: 2^-126 less 2^-151 to 2^-150. Wild numbers never meet them.
Operands OperandsAtTheLeastNormal() {
  Operands edge;
  for (int64_t n = 0; n < kOut; ++n) {
    const float step = static_cast<float>(n % 64) / 64;
    // In every other column of the even k, in the others of the odd ones: each may be a chain of
    // its own.
    const int64_t first = n * kIn + n % 2;
    edge.weight[static_cast<size_t>(first)] = F32ToBf16(0x1p-63f);
    edge.weight[static_cast<size_t>(first + 2)] = F32ToBf16((1 + step) * 0x1p-76f);
  }
  for (int64_t r = 0; r < kRowsMax; ++r) {
    for (int64_t k : {0, 1}) {
      edge.in[static_cast<size_t>(r * kIn + k)] = 0x1p-63f;
      edge.in[static_cast<size_t>(r * kIn + k + 2)] = -0x1p-75f;
    }
  }
  return edge;
}

std::vector<float> Multiply(const KernelTable& kernels, const CpuWeight& weight,
                            const std::vector<float>& in, int64_t rows, bool by_f32) {
  const LeafPairs& pairs = weight.pairs();
  std::vector<float> out(static_cast<size_t>(rows * kOut));
  Scratch packed_in, scratch;
  uint64_t slices = 0;
  MatMulJob job = {};
  job.dtype = DType::kBF16;
  job.weight = weight.data();
  job.leaf_pair_begin = pairs.data();
  job.leaf_begin = weight.leaf_begin().data();
  job.leaves = pairs.leaves();
  job.in = in.data();
  job.in_stride = kIn;
  job.rows = rows;
  job.packed_in = packed_in.Bytes(PackedInBytes(rows, pairs.total(), pairs.leaves()));
  job.out = out.data();
  job.out_stride = job.out_cols = kOut;
  job.tuning = {.ahead_bytes = kAheadOff, .by_f32 = by_f32};
  kernels.pack_rows(job, 0, PackedTiles(kernels, job));
  kernels.matmul(
      job, 0, weight.groups(),
      scratch.Floats(MatMulScratchFloats(pairs.total(), job.leaves, job.tuning.row_block)),
      &slices);
  return out;
}

bool AgreeOn(const KernelTable& kernels, Operands operands, ThreadPool* pool) {
  const auto packed = PackWeight(
      {{{operands.weight.data(), DType::kBF16, {}, kOut, kIn, kIn}}, {}, "both ways"}, pool);
  CHECK(packed.ok()) << packed.status();
  const auto& weight = dynamic_cast<const CpuWeight&>(**packed);
  for (const int64_t rows : kRows) {
    const std::vector<float> by_dot = Multiply(kernels, weight, operands.in, rows, false);
    const std::vector<float> by_f32 = Multiply(kernels, weight, operands.in, rows, true);
    if (std::memcmp(by_dot.data(), by_f32.data(), by_dot.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

bool BothWaysAgree(const KernelTable& kernels) {
  CHECK(kernels.multiplies_both_ways);
  ThreadPool caller_alone(1);
  bool agree = AgreeOn(kernels, OperandsAtTheLeastNormal(), &caller_alone);
  for (uint64_t seed = 0; agree && seed < kTried; ++seed) {
    agree = AgreeOn(kernels, WildOperands(seed), &caller_alone);
  }
  return agree;
}

}  // namespace tutti::kernels::cpu
