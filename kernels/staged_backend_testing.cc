#include "kernels/staged_backend_testing.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/family_operators.h"
#include "kernels/host_buffer.h"

namespace tutti::kernels {
namespace {

class StagedBackend : public Backend, public FamilyOperators {
 public:
  explicit StagedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  FamilyOperators* family_operators() override {
    return inner_->family_operators() == nullptr ? nullptr : this;
  }

  std::string_view name() const override { return inner_->name(); }
  std::string_view numerics_class() const override { return inner_->numerics_class(); }
  Device device() const override { return {}; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(int64_t bytes) override {
    TUTTI_RETURN_IF_ERROR(inner_->Allocate(bytes).status());
    return AllocateHost(bytes);
  }
  absl::StatusOr<std::unique_ptr<Weight>> Pack(const WeightSource& source) override {
    return inner_->Pack(source);
  }
  absl::StatusOr<std::unique_ptr<Weight>> PackQuantised(const QuantisedSource& source) override {
    return inner_->PackQuantised(source);
  }
  void Embed(std::span<const int32_t> ids, const Weight& weight, TensorView out) override {
    Staged o(this, out);
    inner_->Embed(ids, weight, o.view);
    o.Return();
  }
  void MatMul(TensorView in, const Weight& weight, TensorView out) override {
    Staged i(this, in), o(this, out);
    inner_->MatMul(i.view, weight, o.view);
    o.Return();
  }
  void RmsNorm(TensorView in, TensorView weight, float epsilon, TensorView out) override {
    Staged i(this, in), w(this, weight);
    if (in.data == out.data) {
      inner_->RmsNorm(i.view, w.view, epsilon, i.view);
      return i.Return();
    }
    Staged o(this, out);
    inner_->RmsNorm(i.view, w.view, epsilon, o.view);
    o.Return();
  }
  void HeadNormRope(TensorView x, int64_t head_dim, TensorView norm, float epsilon,
                    std::span<const int32_t> positions,
                    std::span<const float> inverse_frequency) override {
    Staged staged(this, x), weight(this, norm);
    inner_->HeadNormRope(staged.view, head_dim, weight.view, epsilon, positions, inverse_frequency);
    staged.Return();
  }
  void AddBias(TensorView x, TensorView bias) override {
    Staged staged(this, x), b(this, bias);
    inner_->AddBias(staged.view, b.view);
    staged.Return();
  }
  void SiluMul(TensorView gate_up, TensorView out) override {
    Staged i(this, gate_up), o(this, out);
    inner_->SiluMul(i.view, o.view);
    o.Return();
  }
  void AddResidual(TensorView residual, TensorView delta, DType round_to) override {
    Staged r(this, residual), d(this, delta);
    inner_->AddResidual(r.view, d.view, round_to);
    r.Return();
  }
  void Convert(TensorView in, TensorView out) override {
    Staged i(this, in), o(this, out);
    inner_->Convert(i.view, o.view);
    o.Return();
  }
  absl::Status CheckKvSupport(const KvShape& shape) const override {
    return inner_->CheckKvSupport(shape);
  }
  int64_t KvLayerBytes(const KvShape& shape) const override { return inner_->KvLayerBytes(shape); }
  void WriteKv(TensorView k, TensorView v, const AttentionBatch& batch,
               const KvLayer& cache) override {
    Staged ks(this, k), vs(this, v), c(this, Words(cache));
    inner_->WriteKv(ks.view, vs.view, batch, OnDevice(cache, c.view));
    c.Return();
  }
  void Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch, float scale,
                 TensorView out) override {
    Staged qs(this, q), c(this, Words(cache)), o(this, out);
    inner_->Attention(qs.view, OnDevice(cache, c.view), batch, scale, o.view);
    o.Return();
  }
  void AdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments) override {
    Staged staged(this, logits);
    inner_->AdjustLogits(staged.view, adjustments);
    staged.Return();
  }
  void MaskLogits(TensorView logits, std::span<const int32_t> rows,
                  std::span<const uint32_t> masks) override {
    Staged staged(this, logits);
    inner_->MaskLogits(staged.view, rows, masks);
    staged.Return();
  }
  void ArgMax(TensorView logits, std::span<int32_t> out) override {
    Staged staged(this, logits);
    inner_->ArgMax(staged.view, out);
  }
  void Bests(TensorView logits, std::span<Candidate> out) override {
    Staged staged(this, logits);
    inner_->Bests(staged.view, out);
  }
  void Summarize(TensorView logits, const LogitQuestions& questions,
                 const LogitAnswers& answers) override {
    Staged staged(this, logits);
    inner_->Summarize(staged.view, questions, answers);
  }
  void LogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) override {
    Staged staged(this, logits);
    inner_->LogSumExp(staged.view, inverse_temperature, out);
  }
  void Pick(TensorView logits, std::span<const int32_t> ids, std::span<float> out) override {
    Staged staged(this, logits);
    inner_->Pick(staged.view, ids, out);
  }
  void TopCandidates(TensorView logits, int64_t row, int64_t count,
                     std::vector<Candidate>* out) override {
    Staged staged(this, logits);
    inner_->TopCandidates(staged.view, row, count, out);
  }
  void TopCandidatesOfRows(TensorView logits, std::span<const int32_t> rows, int64_t count,
                           std::span<Candidate> out) override {
    Staged staged(this, logits);
    inner_->TopCandidatesOfRows(staged.view, rows, count, out);
  }

  void ScaleRows(TensorView x, std::span<const float> scale) override {
    Staged staged(this, x);
    inner_->family_operators()->ScaleRows(staged.view, scale);
    staged.Return();
  }
  void SelectExperts(TensorView logits, int64_t count, bool normalise, std::span<int32_t> experts,
                     std::span<float> shares) override {
    Staged staged(this, logits);
    inner_->family_operators()->SelectExperts(staged.view, count, normalise, experts, shares);
  }
  void GatherRows(TensorView in, std::span<const int32_t> rows, TensorView out) override {
    Staged i(this, in), o(this, out);
    inner_->family_operators()->GatherRows(i.view, rows, o.view);
    o.Return();
  }
  void SumRows(TensorView in, std::span<const int32_t> rows, std::span<const float> weights,
               TensorView out) override {
    Staged i(this, in), o(this, out);
    inner_->family_operators()->SumRows(i.view, rows, weights, o.view);
    o.Return();
  }

 private:
  // A view of the host and its copy on the device, of the same shape, stride and type.
  struct Staged {
    Staged(StagedBackend* owner, TensorView from) : backend(owner->inner_.get()), host(from) {
      view = host;
      if (host.data == nullptr) return;
      view.device = backend->device();
      view.row_stride = std::max(host.row_stride, host.cols);
      auto memory = backend->Allocate(host.rows * view.row_stride * DTypeBytes(host.dtype));
      CHECK(memory.ok()) << memory.status();
      buffer = *std::move(memory);
      view.data = buffer->data();
      if (host.rows > 0) backend->Convert(host, view);
    }
    void Return() {
      if (host.rows > 0) backend->Convert(view, host);
    }
    Backend* const backend;
    const TensorView host;
    TensorView view;
    std::unique_ptr<DeviceBuffer> buffer;
  };

  // The cache as plain words, which Convert moves without changing a bit.
  TensorView Words(const KvLayer& cache) const {
    const int64_t words = inner_->KvLayerBytes(cache.shape) / 4;
    return {.data = cache.data, .rows = 1, .cols = words, .row_stride = words};
  }
  KvLayer OnDevice(const KvLayer& cache, const TensorView& words) const {
    return {.data = words.data, .device = inner_->device(), .shape = cache.shape};
  }

  const std::unique_ptr<Backend> inner_;
};

}  // namespace

std::unique_ptr<Backend> MakeStagedBackend(std::unique_ptr<Backend> device) {
  return std::make_unique<StagedBackend>(std::move(device));
}

}  // namespace tutti::kernels
