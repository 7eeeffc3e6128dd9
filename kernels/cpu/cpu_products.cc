#include "kernels/cpu/cpu_products.h"

#include "base/check.h"
#include "kernels/cpu/scratch.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels::cpu {

const CpuWeight& AsCpu(const Weight& weight) {
  const auto* packed = dynamic_cast<const CpuWeight*>(&weight);
  CHECK(packed != nullptr) << "a weight packed by another backend";
  return *packed;
}

namespace {
// Null: of another kind.
const QuantisedWeight* AsQuantised(const Weight& weight) {
  return dynamic_cast<const QuantisedWeight*>(&weight);
}
}  // namespace

const QuantisedWeight& AsCodes(const Weight& weight) {
  const QuantisedWeight* const codes = AsQuantised(weight);
  CHECK(codes != nullptr) << "a weight of another kind or backend";
  return *codes;
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

void CpuProducts::Pack(const MatMulJob& job, int64_t cols) {
  pool_.Split(PackedTiles(*kernels_, job), job.rows * cols < kSerialElements,
              [&](int, int64_t begin, int64_t end) { kernels_->pack_rows(job, begin, end); });
}

void CpuProducts::MatMul(TensorView in, const Weight& weight, TensorView out) {
  packed_for_ = nullptr;
  if (in.rows == 0) return;
  if (const QuantisedWeight* codes = AsQuantised(weight); codes != nullptr) {
    return MatMulQuantised(in, *codes, out);
  }
  const CpuWeight& packed = AsCpu(weight);
  MatMulJob job = JobOf(packed, in.rows);
  job.in = in.f32();
  job.in_stride = in.row_stride;
  Pack(job, in.cols);
  Multiply(job, packed, out);
}

QuantisedJob CpuProducts::JobOf(const QuantisedWeight& weight, const QuantisedSection& section,
                                int64_t rows) {
  QuantisedJob job = weight.JobOf(section);
  job.rows.rows = rows;
  job.rows.packed_in =
      packed_in_.Bytes(PackedInBytes(rows, section.pair_begin.back(), section.strips()));
  job.rows.tuning = knobs_->ForRows(rows);
  return job;
}

void CpuProducts::Multiply(const QuantisedJob& rows, const QuantisedSection& section,
                           TensorView out) {
  QuantisedJob job = rows;
  job.rows.out = out.f32() + section.first_row;
  job.rows.out_stride = out.row_stride;
  job.rows.out_cols = section.rows;
  const int64_t scratch = QuantisedScratchFloats(section.pair_begin.back(), section.leaves(),
                                                 job.rows.tuning.row_block);
  const bool serial = section.bytes() < kSerialWeightBytes && job.rows.rows < kTileRows;
  pool_.Split(section.groups(), serial, [&](int thread, int64_t begin, int64_t end) {
    kernels_->matmul_quantised(job, begin, end, ThreadFloats(thread, scratch),
                               pool_.slices(thread));
  });
}

void CpuProducts::MatMulRounded(TensorView in, std::span<const float> largest,
                                const QuantisedWeight& weight, TensorView out) {
  CheckMatMul(in, weight, out);
  CHECK(weight.rounds_rows() && (largest.empty() || std::ssize(largest) == in.rows));
  for (const QuantisedSection& section : weight.sections()) {
    QuantisedJob job = JobOf(weight, section, in.rows);
    job.rows.in = in.f32();
    job.rows.in_stride = in.row_stride;
    integer_rows_.Begin(job, largest, kernels_->integer_tiles && !job.rows.tuning.by_f32);
    pool_.Split(integer_rows_.tiles(), in.rows * in.cols < kSerialElements,
                [&](int thread, int64_t begin, int64_t end) {
                  float* const room = ThreadFloats(thread, integer_rows_.RoomFloats());
                  for (int64_t tile = begin; tile < end; ++tile) {
                    integer_rows_.PackTile(tile, room);
                    CountSlice(pool_.slices(thread));
                  }
                });
    Multiply(integer_rows_.job(), section, out);
  }
}

void CpuProducts::MatMulQuantised(TensorView in, const QuantisedWeight& weight, TensorView out) {
  if (weight.rounds_rows()) return MatMulRounded(in, {}, weight, out);
  for (const QuantisedSection& section : weight.sections()) {
    QuantisedJob job = JobOf(weight, section, in.rows);
    job.rows.in = in.f32();
    job.rows.in_stride = in.row_stride;
    if (!section.order.empty()) {
      const auto cols = static_cast<int64_t>(section.order.size());
      float* const rows = gathered_.Floats(in.rows * cols);
      ForRows(in.rows, cols, [&](int, int64_t r) {
        const float* const from = in.f32(r);
        float* to = rows + r * cols;
        for (const int32_t input : section.order) *to++ = input < 0 ? 0 : from[input];
      });
      job.rows.in = rows;
      job.rows.in_stride = cols;
    }
    Pack(job.rows, in.cols);
    Multiply(job, section, out);
  }
}

bool CpuProducts::BeginRows(const Weight& weight, int64_t rows) {
  packed_for_ = nullptr;
  if (rows == 0 || kernels_->pack_row == nullptr) return false;
  if (const QuantisedWeight* codes = AsQuantised(weight); codes != nullptr) {
    const QuantisedSection& section = codes->sections().front();
    if (codes->sections().size() > 1 || !section.order.empty()) return false;
    if (codes->rounds_rows()) return false;
    quantised_job_ = JobOf(*codes, section, rows);
    rows_job_ = quantised_job_.rows;
  } else {
    rows_job_ = JobOf(AsCpu(weight), rows);
  }
  if (rows_job_.dtype != DType::kBF16 || rows_job_.tuning.by_f32) return false;
  packed_for_ = &weight;
  return true;
}

void CpuProducts::MultiplyRows(const Weight& weight, TensorView out) {
  CHECK(HasRows(weight) && out.rows == rows_job_.rows)
      << rows_job_.rows << " rows were made, " << out.rows << " are asked for";
  packed_for_ = nullptr;
  if (const QuantisedWeight* codes = AsQuantised(weight); codes != nullptr) {
    return Multiply(quantised_job_, codes->sections().front(), out);
  }
  Multiply(rows_job_, AsCpu(weight), out);
}

}  // namespace tutti::kernels::cpu
