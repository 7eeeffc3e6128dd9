// The knobs of the cpu backend: which there are, and the product's choices that follow from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/product_tuning.h"
#include "kernels/tunable.h"

namespace tutti::kernels::cpu {

// Thread: one at a time.
class CpuKnobs {
 public:
  // Those of an instruction set, whose table says which it has; of two ways to multiply bf16 both
  // are only where they give the same bits (both_ways.h). Keeps no reference.
  explicit CpuKnobs(const KernelTable& kernels);
  // The same, at the values of the knobs of another set that have the same names and take them.
  CpuKnobs(const KernelTable& kernels, const CpuKnobs& other);

  std::span<const Knob> knobs() const { return knobs_; }
  int64_t value(size_t knob) const { return values_[knob]; }
  // There are two ways to multiply bf16, and this processor gives other bits by the second.
  bool ways_differ() const { return ways_differ_; }
  // REQUIRES: `value` is one of the knob's
  void Set(size_t knob, int64_t value);

  // REQUIRES: rows > 0
  ProductTuning ForRows(int64_t rows) const;
  // AttentionJob::by_f32
  bool AttentionByF32() const;

 private:
  CpuKnobs(const KernelTable& kernels, bool both_ways);

  std::vector<Knob> knobs_;
  size_t ways_;  // of the knobs, those that choose between two ways to multiply
  bool ways_differ_;
  std::vector<int64_t> values_;
};

}  // namespace tutti::kernels::cpu
