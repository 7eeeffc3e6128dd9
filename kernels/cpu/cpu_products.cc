#include "kernels/cpu/cpu_products.h"

#include "base/check.h"
#include "kernels/cpu/scratch.h"

namespace tutti::kernels::cpu {

const CpuWeight& AsCpu(const Weight& weight) {
  const auto* packed = dynamic_cast<const CpuWeight*>(&weight);
  CHECK(packed != nullptr) << "a weight packed by another backend";
  return *packed;
}

MatMulJob CpuProducts::JobOf(const CpuWeight& weight, int64_t rows) {
  const LeafPairs& pairs = weight.pairs();
  MatMulJob job = {};
  job.dtype = weight.dtype();
  job.weight = weight.data();
  job.leaf_pair_begin = pairs.data();
  job.leaf_begin = weight.leaf_begin().data();
  job.leaves = pairs.leaves();
  job.rows = rows;
  job.packed_in = packed_in_.Bytes(PackedInBytes(rows, pairs.total(), pairs.leaves()));
  job.tuning = knobs_->ForRows(rows);
  return job;
}

void CpuProducts::Multiply(const MatMulJob& rows, const CpuWeight& weight, TensorView out) {
  MatMulJob job = rows;
  job.out = out.f32();
  job.out_stride = out.row_stride;
  job.out_cols = out.cols;
  const int64_t scratch =
      MatMulScratchFloats(weight.pairs().total(), job.leaves, job.tuning.row_block);
  const bool serial = weight.bytes() < kSerialWeightBytes && job.rows < kTileRows;
  pool_.Split(weight.groups(), serial, [&](int thread, int64_t begin, int64_t end) {
    kernels_->matmul(job, begin, end, ThreadFloats(thread, scratch), pool_.slices(thread));
  });
}

void CpuProducts::MatMul(TensorView in, const CpuWeight& weight, TensorView out) {
  packed_for_ = nullptr;
  if (in.rows == 0) return;
  MatMulJob job = JobOf(weight, in.rows);
  job.in = in.f32();
  job.in_stride = in.row_stride;
  pool_.Split(PackedTiles(*kernels_, job), in.rows * in.cols < kSerialElements,
              [&](int, int64_t begin, int64_t end) { kernels_->pack_rows(job, begin, end); });
  Multiply(job, weight, out);
}

bool CpuProducts::BeginRows(const CpuWeight& weight, int64_t rows) {
  packed_for_ = nullptr;
  if (rows == 0 || kernels_->pack_row == nullptr || weight.dtype() != DType::kBF16) return false;
  rows_job_ = JobOf(weight, rows);
  if (rows_job_.tuning.by_f32) return false;
  packed_for_ = &weight;
  return true;
}

void CpuProducts::MultiplyRows(const CpuWeight& weight, TensorView out) {
  CHECK(HasRows(weight) && out.rows == rows_job_.rows)
      << rows_job_.rows << " rows were made, " << out.rows << " are asked for";
  packed_for_ = nullptr;
  Multiply(rows_job_, weight, out);
}

}  // namespace tutti::kernels::cpu
