// Products of the cpu backend: rows are packed, and multiplied with a weight, over a pool of
// threads.
//
// Thread: the backend's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/cpu_knobs.h"
#include "kernels/cpu/cpu_quantised.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/growing_memory.h"
#include "kernels/cpu/integer_rows.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/slice_count.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/limits.h"
#include "kernels/tensor.h"

namespace tutti::kernels::cpu {

// The packed weight of this backend.  CHECKs that it is one.
const CpuWeight& AsCpu(const Weight& weight);
// The same of a weight of codes.
const QuantisedWeight& AsCodes(const Weight& weight);

class CpuProducts {
 public:
  // Keeps both. REQUIRES: they outlive it; one scratch for each thread of the pool
  CpuProducts(ThreadPool* pool, std::vector<Scratch>* thread_scratch)
      : pool_(*pool), thread_scratch_(*thread_scratch) {}

  // Products from now on. Keeps both.
  void Use(const KernelTable* kernels, const CpuKnobs* knobs) {
    kernels_ = kernels;
    knobs_ = knobs;
    packed_for_ = nullptr;
  }

  // out = in * weight^T.  CHECKs that the weight is of this backend.
  void MatMul(TensorView in, const Weight& weight, TensorView out);

  // FamilyOperators::MatMulRounded; `largest` empty: rows are whole.
  void MatMulRounded(TensorView in, std::span<const float> largest, const QuantisedWeight& weight,
                     TensorView out);

  // Instead of MatMul, for rows that are made one by one and for nothing else: BeginRows, PackRow
  // of each, from any threads of the pool, and MultiplyRows once, before the next BeginRows or
  // MatMul. BeginRows says whether this weight's rows can be packed so; where not, nothing has
  // begun.
  bool BeginRows(const Weight& weight, int64_t rows);
  void PackRow(int64_t row, const float* values) { kernels_->pack_row(rows_job_, row, values); }
  // Whether the rows of `weight` are packed.
  bool HasRows(const Weight& weight) const { return packed_for_ == &weight; }
  void MultiplyRows(const Weight& weight, TensorView out);

  // Calls fn(thread, row) for every row, on all threads when there is enough to do.
  template <class Fn>
  void ForRows(int64_t rows, int64_t cols, const Fn& fn) {
    pool_.Split(rows, rows * cols < kSerialElements, [&](int thread, int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        fn(thread, r);
        CountSlice(pool_.slices(thread));
      }
    });
  }
  // Floats of a thread's own, until its next call.
  float* ThreadFloats(int thread, int64_t count) {
    return thread_scratch_[static_cast<size_t>(thread)].Floats(count);
  }

 private:
  // All but the rows and where they and the results are.
  MatMulJob JobOf(const CpuWeight& weight, int64_t rows);
  void Multiply(const MatMulJob& job, const CpuWeight& weight, TensorView out);
  // The same of a section of a quantised weight.
  QuantisedJob JobOf(const QuantisedWeight& weight, const QuantisedSection& section, int64_t rows);
  void Multiply(const QuantisedJob& job, const QuantisedSection& section, TensorView out);
  void MatMulQuantised(TensorView in, const QuantisedWeight& weight, TensorView out);
  // The rows of job.in, to be packed by all threads.
  void Pack(const MatMulJob& job, int64_t cols);

  ThreadPool& pool_;
  std::vector<Scratch>& thread_scratch_;
  const KernelTable* kernels_ = nullptr;
  const CpuKnobs* knobs_ = nullptr;
  Scratch packed_in_;
  IntegerRows integer_rows_;
  Scratch gathered_;  // rows whose inputs are packed in another order
  MatMulJob rows_job_ = {};
  QuantisedJob quantised_job_ = {};  // whose rows are those, where they are for one
  const Weight* packed_for_ = nullptr;
};

}  // namespace tutti::kernels::cpu
