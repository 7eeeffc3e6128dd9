// A weight in the layout of weight_layout.h: packing, and reading rows back.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight_layout.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels::cpu {

class CpuWeight : public Weight {
 public:
  CpuWeight(WeightShape shape, std::unique_ptr<DeviceBuffer> data);

  int64_t out_features() const override { return shape_.out_features; }
  int64_t in_features() const override { return shape_.in_features; }
  int64_t bytes() const override { return data_->bytes(); }

  DType dtype() const { return shape_.dtype; }
  int64_t groups() const { return (shape_.out_features + kGroupColumns - 1) / kGroupColumns; }
  const std::vector<int64_t>& leaf_begin() const { return shape_.leaf_begin; }
  const LeafPairs& pairs() const { return pairs_; }
  uint8_t* data() const { return static_cast<uint8_t*>(data_->data()); }

  // out[k] = weight[row, k], exactly.
  void ReadRow(int64_t row, float* out) const;

 private:
  const WeightShape shape_;
  const LeafPairs pairs_;
  const std::unique_ptr<DeviceBuffer> data_;
};

// See Backend::Pack.
absl::StatusOr<std::unique_ptr<Weight>> PackWeight(const WeightSource& source, ThreadPool* pool);

}  // namespace tutti::kernels::cpu
