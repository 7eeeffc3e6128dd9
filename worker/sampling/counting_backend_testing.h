// A backend that counts the work which sampling asks of it.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/backend.h"

namespace tutti::worker {

class CountingBackend : public kernels::Backend {
 public:
  using TensorView = kernels::TensorView;

  explicit CountingBackend(std::unique_ptr<kernels::Backend> inner) : inner_(std::move(inner)) {}

  // Logits that operators have read.
  int64_t logits_read() const { return logits_read_; }
  // The most candidates that were asked for at once: these are put in order.
  int64_t most_ordered() const { return most_ordered_; }

  std::string_view name() const override { return inner_->name(); }
  std::string_view numerics_class() const override { return inner_->numerics_class(); }
  kernels::Device device() const override { return inner_->device(); }
  absl::StatusOr<std::unique_ptr<kernels::DeviceBuffer>> Allocate(int64_t bytes) override {
    return inner_->Allocate(bytes);
  }
  void Convert(TensorView in, TensorView out) override {
    Read(in);
    inner_->Convert(in, out);
  }
  void AdjustLogits(TensorView logits,
                    std::span<const kernels::LogitAdjustment> adjustments) override {
    logits_read_ += static_cast<int64_t>(adjustments.size());
    inner_->AdjustLogits(logits, adjustments);
  }
  void ArgMax(TensorView logits, std::span<int32_t> out) override {
    Read(logits);
    inner_->ArgMax(logits, out);
  }
  void LogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) override {
    Read(logits);
    inner_->LogSumExp(logits, inverse_temperature, out);
  }
  void Pick(TensorView logits, std::span<const int32_t> ids, std::span<float> out) override {
    inner_->Pick(logits, ids, out);
  }
  void TopCandidates(TensorView logits, int64_t row, int64_t count,
                     std::vector<kernels::Candidate>* out) override {
    Read(logits.Rows(row, 1));
    most_ordered_ = std::max(most_ordered_, count);
    inner_->TopCandidates(logits, row, count, out);
  }

  // Sampling calls none of these.
  absl::StatusOr<std::unique_ptr<kernels::Weight>> Pack(const kernels::WeightSource&) override {
    return absl::UnimplementedError("weights");
  }
  void Embed(std::span<const int32_t>, const kernels::Weight&, TensorView) override { Refuse(); }
  void MatMul(TensorView, const kernels::Weight&, TensorView) override { Refuse(); }
  void RmsNorm(TensorView, TensorView, float, TensorView) override { Refuse(); }
  void HeadNormRope(TensorView, int64_t, TensorView, float, std::span<const int32_t>,
                    std::span<const float>) override {
    Refuse();
  }
  void AddBias(TensorView, TensorView) override { Refuse(); }
  void SiluMul(TensorView, TensorView) override { Refuse(); }
  void AddResidual(TensorView, TensorView, DType) override { Refuse(); }
  int64_t KvLayerBytes(const kernels::KvShape&) const override { return 0; }
  void WriteKv(TensorView, TensorView, const kernels::AttentionBatch&,
               const kernels::KvLayer&) override {
    Refuse();
  }
  void Attention(TensorView, const kernels::KvLayer&, const kernels::AttentionBatch&, float,
                 TensorView) override {
    Refuse();
  }

 private:
  void Read(const TensorView& view) { logits_read_ += view.rows * view.cols; }
  static void Refuse() { CHECK(false) << "not an operator of sampling"; }

  const std::unique_ptr<kernels::Backend> inner_;
  int64_t logits_read_ = 0;
  int64_t most_ordered_ = 0;
};

}  // namespace tutti::worker
