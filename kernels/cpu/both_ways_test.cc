// A way to multiply is offered only where it gives the bits of the other. Tables of two ways are
// put together of kernels that every machine here has.
#include "kernels/cpu/both_ways.h"

#include <bit>

#include "kernels/cpu/cpu_knobs.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/kernels_testing.h"

namespace tutti::kernels::cpu {
namespace {

const KernelTable& Dot() { return EmulatedBf16DotKernels(); }

// The same product by both ways.
KernelTable Agreeing() {
  KernelTable table = Dot();
  table.multiplies_both_ways = true;
  return table;
}

// The kernels of the class cpu-f32, which round otherwise, as the way by f32.
KernelTable OfAnotherClass() {
  KernelTable table = Agreeing();
  table.pack_rows = [](const MatMulJob& job, int64_t begin, int64_t end) {
    (job.tuning.by_f32 ? Avx2Kernels() : Dot()).pack_rows(job, begin, end);
  };
  table.matmul = [](const MatMulJob& job, int64_t begin, int64_t end, float* scratch,
                    uint64_t* slices) {
    (job.tuning.by_f32 ? Avx2Kernels() : Dot()).matmul(job, begin, end, scratch, slices);
  };
  return table;
}

// Products of more than one row differ in the last bit of one number.
KernelTable OneBitOff() {
  KernelTable table = Agreeing();
  table.matmul = [](const MatMulJob& job, int64_t begin, int64_t end, float* scratch,
                    uint64_t* slices) {
    Dot().matmul(job, begin, end, scratch, slices);
    if (!job.tuning.by_f32 || job.rows < 2) return;
    float& last = job.out[(job.rows - 1) * job.out_stride + job.out_cols - 1];
    last = std::bit_cast<float>(std::bit_cast<uint32_t>(last) ^ 1u);
  };
  return table;
}

bool OffersTwoWays(const CpuKnobs& knobs) {
  for (const Knob& knob : knobs.knobs()) {
    if (knob.name.starts_with("f32-")) return true;
  }
  return false;
}

TEST(BothWaysTest, WaysThatAgreeAreOffered) {
  EXPECT_TRUE(BothWaysAgree(Agreeing()));
  const CpuKnobs knobs(Agreeing());
  EXPECT_TRUE(OffersTwoWays(knobs));
  EXPECT_FALSE(knobs.ways_differ());
}

TEST(BothWaysTest, OneThatGivesOtherBitsIsNot) {
  for (const KernelTable& table : {OfAnotherClass(), OneBitOff()}) {
    EXPECT_FALSE(BothWaysAgree(table));
    CpuKnobs knobs(table);
    EXPECT_FALSE(OffersTwoWays(knobs));
    EXPECT_TRUE(knobs.ways_differ());
    // Nor do choices of a set that has two ways bring it back.
    CpuKnobs both{Agreeing()};
    for (size_t k = 0; k < both.knobs().size(); ++k) {
      if (both.knobs()[k].name.starts_with("f32-")) both.Set(k, 1);
    }
    EXPECT_TRUE(both.ForRows(1).by_f32 && both.AttentionByF32());
    const CpuKnobs carried(table, both);
    for (const int64_t rows : {1, 4, 100}) EXPECT_FALSE(carried.ForRows(rows).by_f32);
    EXPECT_FALSE(carried.AttentionByF32());
  }
}

TEST(BothWaysTest, WhereThereIsOneWayNothingDiffers) {
  const CpuKnobs knobs(Avx2Kernels());
  EXPECT_FALSE(OffersTwoWays(knobs));
  EXPECT_FALSE(knobs.ways_differ());
}

// Of the instruction itself, where a machine has it: dot_instruction_test.cc says more.
TEST(BothWaysTest, OfThisMachineTheyAgree) {
  if (!MachineFeatures().avx512bf16) GTEST_SKIP() << "this machine has no avx512bf16";
  EXPECT_TRUE(BothWaysAgree(Avx512Bf16Kernels()));
}

}  // namespace
}  // namespace tutti::kernels::cpu
