#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "kernels/family_operators.h"
#include "kernels/float_formats.h"
#include "kernels/host_buffer.h"
#include "kernels/reference/block_sums.h"
#include "kernels/reference/quantised_weight.h"
#include "kernels/reference/reference_sampling.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels {
namespace {

// Row-major [out, in], as in the checkpoint.
class ReferenceWeight : public Weight {
 public:
  ReferenceWeight(WeightShape shape, std::unique_ptr<DeviceBuffer> data)
      : shape_(std::move(shape)), data_(std::move(data)) {}
  int64_t out_features() const override { return shape_.out_features; }
  int64_t in_features() const override { return shape_.in_features; }
  int64_t bytes() const override { return data_->bytes(); }
  DType dtype() const { return shape_.dtype; }
  const std::vector<int64_t>& leaf_begin() const { return shape_.leaf_begin; }
  float at(int64_t out, int64_t in) const {
    return LoadAsF32(data_->data(), shape_.dtype, out * shape_.in_features + in);
  }

 private:
  const WeightShape shape_;
  const std::unique_ptr<DeviceBuffer> data_;
};

const ReferenceWeight& AsReference(const Weight& weight) {
  const auto* reference = dynamic_cast<const ReferenceWeight*>(&weight);
  CHECK(reference != nullptr) << "a weight packed by another backend";
  return *reference;
}

float LeafSumInBlocks(const float* in, const ReferenceWeight& weight, int64_t n, int64_t leaf) {
  std::vector<float> a, b;
  for (int64_t k = weight.leaf_begin()[leaf]; k < weight.leaf_begin()[leaf + 1]; ++k) {
    a.push_back(RoundOperand(in[k]));
    b.push_back(weight.at(n, k));
  }
  return BlockSum(a, b);
}

float LeafSum(const float* in, const ReferenceWeight& weight, int64_t n, int64_t leaf,
              bool in_blocks) {
  if (in_blocks && weight.dtype() == DType::kBF16) return LeafSumInBlocks(in, weight, n, leaf);
  double sum = 0;
  for (int64_t k = weight.leaf_begin()[leaf]; k < weight.leaf_begin()[leaf + 1]; ++k) {
    sum += static_cast<double>(in[k]) * weight.at(n, k);
  }
  return static_cast<float>(sum);
}

// Leaves [first, first + count), added in a binary tree of neighbours.
float TreeSum(const float* in, const ReferenceWeight& weight, int64_t n, int64_t first,
              int64_t count, bool in_blocks) {
  if (count == 1) return LeafSum(in, weight, n, first, in_blocks);
  const int64_t half = count / 2;
  return TreeSum(in, weight, n, first, half, in_blocks) +
         TreeSum(in, weight, n, first + half, half, in_blocks);
}

double InverseRms(const float* x, int64_t count, float epsilon) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return 1 / std::sqrt(sum / static_cast<double>(count) + epsilon);
}

// Element index of (slot of a block, key or value, head, 0):  [blocks][slots][key,
// value][kv_heads][head_dim]
int64_t KvIndex(const KvShape& shape, int64_t block, int64_t slot, bool value, int64_t head) {
  const int64_t row = (block * shape.block_size + slot) * 2 + (value ? 1 : 0);
  return (row * shape.kv_heads + head) * shape.head_dim;
}

// KvIndex of position `position` of sequence `s`.
int64_t KvIndexAt(const AttentionBatch& batch, const KvShape& shape, int64_t s, int64_t position,
                  bool value, int64_t head) {
  const int32_t block = batch.blocks[batch.block_begin[s] + position / shape.block_size];
  return KvIndex(shape, block, position % shape.block_size, value, head);
}

// One query head of one row.
void AttendHead(const float* q, const KvLayer& cache, const AttentionBatch& batch, int64_t s,
                int64_t position, int64_t kv_head, float scale, float* out) {
  const KvShape& shape = cache.shape;
  std::vector<double> scores(position + 1);
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t p = 0; p <= position; ++p) {
    const int64_t key = KvIndexAt(batch, shape, s, p, false, kv_head);
    double dot = 0;
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      dot += static_cast<double>(q[d]) * LoadAsF32(cache.data, shape.dtype, key + d);
    }
    scores[p] = dot * scale;
    largest = std::max(largest, scores[p]);
  }
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - largest);
  std::vector<double> sum(shape.head_dim);
  for (int64_t p = 0; p <= position; ++p) {
    const int64_t value = KvIndexAt(batch, shape, s, p, true, kv_head);
    for (int64_t d = 0; d < shape.head_dim; ++d) {
      sum[d] += scores[p] * LoadAsF32(cache.data, shape.dtype, value + d);
    }
  }
  for (int64_t d = 0; d < shape.head_dim; ++d) out[d] = static_cast<float>(sum[d] / total);
}

// The same in the class cpu-bf16block.
void AttendHeadInBlocks(const float* q, const KvLayer& cache, const AttentionBatch& batch,
                        int64_t s, int64_t position, int64_t kv_head, float scale, float* out) {
  const KvShape& shape = cache.shape;
  const auto element = [&](bool value) {
    return [&, value](int64_t slot, int64_t d) {
      const int64_t at = KvIndexAt(batch, shape, s, slot, value, kv_head);
      return LoadAsF32(cache.data, shape.dtype, at + d);
    };
  };
  AttendInBlocks({.head_dim = shape.head_dim,
                  .slots = position + 1,
                  .scale = scale,
                  .query = q,
                  .key = element(false),
                  .value = element(true)},
                 out);
}

class ReferenceBackend : public Backend, public FamilyOperators {
 public:
  explicit ReferenceBackend(bool in_blocks) : in_blocks_(in_blocks) {}
  FamilyOperators* family_operators() override { return this; }
  std::string_view name() const override { return "reference"; }
  std::string_view numerics_class() const override {
    return in_blocks_ ? "reference-bf16block" : "reference";
  }
  Device device() const override { return {}; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(int64_t bytes) override {
    return AllocateHost(bytes);
  }

  absl::StatusOr<std::unique_ptr<Weight>> Pack(const WeightSource& source) override {
    TUTTI_ASSIGN_OR_RETURN(WeightShape shape, CheckWeightSource(source));
    const int64_t row_bytes = shape.in_features * DTypeBytes(shape.dtype);
    TUTTI_ASSIGN_OR_RETURN(auto data, AllocateHost(shape.out_features * row_bytes));
    char* to = static_cast<char*>(data->data());
    for (const TensorView& part : source.parts) {
      for (int64_t r = 0; r < part.rows; ++r, to += row_bytes) {
        std::memcpy(to, part.Rows(r, 1).data, row_bytes);
      }
    }
    return std::make_unique<ReferenceWeight>(std::move(shape), std::move(data));
  }

  absl::StatusOr<std::unique_ptr<Weight>> PackQuantised(const QuantisedSource& source) override {
    return ReferenceQuantised::Make(source);
  }

  void Embed(std::span<const int32_t> ids, const Weight& weight, TensorView out) override {
    CheckEmbed(ids, weight, out);
    CheckDevice("Embed", device(), {&out});
    const ReferenceWeight& w = AsReference(weight);
    for (int64_t r = 0; r < out.rows; ++r) {
      for (int64_t k = 0; k < out.cols; ++k) out.f32(r)[k] = w.at(ids[r], k);
    }
  }

  void MatMul(TensorView in, const Weight& weight, TensorView out) override {
    CheckMatMul(in, weight, out);
    CheckDevice("MatMul", device(), {&in, &out});
    if (const auto* codes = dynamic_cast<const ReferenceQuantised*>(&weight)) {
      const SumOrder order = SumOrderOf(numerics_class(), codes->computed_in());
      return codes->MatMul(in, out, in_blocks_ ? std::optional(order) : std::nullopt);
    }
    const ReferenceWeight& w = AsReference(weight);
    const int64_t leaves = static_cast<int64_t>(w.leaf_begin().size()) - 1;
    for (int64_t r = 0; r < in.rows; ++r) {
      for (int64_t n = 0; n < out.cols; ++n) {
        out.f32(r)[n] = TreeSum(in.f32(r), w, n, 0, leaves, in_blocks_);
      }
    }
  }

  void MatMulRounded(TensorView in, std::span<const float> largest, const Weight& weight,
                     TensorView out) override {
    CheckMatMul(in, weight, out);
    dynamic_cast<const ReferenceQuantised&>(weight).MatMul(in, out, std::nullopt, largest);
  }

  void RmsNorm(TensorView in, TensorView weight, float epsilon, TensorView out) override {
    CheckRmsNorm(in, weight, out);
    CheckDevice("RmsNorm", device(), {&in, &weight, &out});
    for (int64_t r = 0; r < in.rows; ++r) {
      const double inverse = InverseRms(in.f32(r), in.cols, epsilon);
      for (int64_t i = 0; i < in.cols; ++i) {
        out.f32(r)[i] = static_cast<float>(in.f32(r)[i] * inverse * weight.f32()[i]);
      }
    }
  }

  void HeadNormRope(TensorView x, int64_t head_dim, TensorView norm, float epsilon,
                    std::span<const int32_t> positions,
                    std::span<const float> inverse_frequency) override {
    CheckHeadNormRope(x, head_dim, norm, positions, inverse_frequency);
    CheckDevice("HeadNormRope", device(), {&x, &norm});
    const int64_t half = head_dim / 2;
    for (int64_t r = 0; r < x.rows; ++r) {
      for (float* head = x.f32(r); head != x.f32(r) + x.cols; head += head_dim) {
        if (norm.data != nullptr) {
          const double inverse = InverseRms(head, head_dim, epsilon);
          for (int64_t i = 0; i < head_dim; ++i) {
            head[i] = static_cast<float>(head[i] * inverse * norm.f32()[i]);
          }
        }
        for (int64_t i = 0; i < half; ++i) {
          // The angle is an f32 product, as in the models' own definition.
          const double angle = static_cast<float>(positions[r]) * inverse_frequency[i];
          const double a = head[i], b = head[i + half];
          head[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
          head[i + half] = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
        }
      }
    }
  }

  void AddBias(TensorView x, TensorView bias) override {
    CheckAddBias(x, bias);
    CheckDevice("AddBias", device(), {&x, &bias});
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t i = 0; i < x.cols; ++i) x.f32(r)[i] += bias.f32()[i];
    }
  }

  void SiluMul(TensorView gate_up, TensorView out) override {
    CheckSiluMul(gate_up, out);
    CheckDevice("SiluMul", device(), {&gate_up, &out});
    for (int64_t r = 0; r < out.rows; ++r) {
      for (int64_t i = 0; i < out.cols; ++i) {
        const double gate = gate_up.f32(r)[i];
        const double up = gate_up.f32(r)[out.cols + i];
        out.f32(r)[i] = static_cast<float>(gate / (1 + std::exp(-gate)) * up);
      }
    }
  }

  void AddResidual(TensorView residual, TensorView delta, DType round_to) override {
    CheckAddResidual(residual, delta);
    CheckDevice("AddResidual", device(), {&residual, &delta});
    for (int64_t r = 0; r < residual.rows; ++r) {
      for (int64_t i = 0; i < residual.cols; ++i) {
        residual.f32(r)[i] = RoundTo(round_to, residual.f32(r)[i] + delta.f32(r)[i]);
      }
    }
  }

  void Convert(TensorView in, TensorView out) override {
    CheckConvert(in, out);
    CheckConvertDevices(device(), in, out);
    for (int64_t r = 0; r < in.rows; ++r) {
      for (int64_t i = 0; i < in.cols; ++i) {
        const float value = LoadAsF32(in.data, in.dtype, r * in.row_stride + i);
        StoreFromF32(out.data, out.dtype, r * out.row_stride + i, value);
      }
    }
  }

  int64_t KvLayerBytes(const KvShape& shape) const override {
    CheckKvShape(shape);
    return KvIndex(shape, shape.num_blocks, 0, false, 0) * DTypeBytes(shape.dtype);
  }

  void WriteKv(TensorView k, TensorView v, const AttentionBatch& batch,
               const KvLayer& cache) override {
    CheckWriteKv(k, v, batch, cache);
    CheckDevice("WriteKv", device(), {&k, &v});
    CheckDevice("WriteKv", device(), cache);
    const KvShape& shape = cache.shape;
    for (int64_t s = 0; s < batch.sequences(); ++s) {
      for (int64_t r = batch.row_begin[s]; r < batch.row_begin[s + 1]; ++r) {
        const int64_t position = batch.first_position[s] + r - batch.row_begin[s];
        const int64_t key = KvIndexAt(batch, shape, s, position, false, 0);
        const int64_t value = KvIndexAt(batch, shape, s, position, true, 0);
        for (int64_t i = 0; i < k.cols; ++i) {
          StoreFromF32(cache.data, shape.dtype, key + i, NumberOrNan(shape.dtype, k.f32(r)[i]));
          StoreFromF32(cache.data, shape.dtype, value + i, NumberOrNan(shape.dtype, v.f32(r)[i]));
        }
      }
    }
  }

  void Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch, float scale,
                 TensorView out) override {
    CheckAttention(q, cache, batch, out);
    CheckDevice("Attention", device(), {&q, &out});
    CheckDevice("Attention", device(), cache);
    const int64_t head_dim = cache.shape.head_dim;
    const int64_t heads = q.cols / head_dim;
    const int64_t group = heads / cache.shape.kv_heads;
    for (int64_t s = 0; s < batch.sequences(); ++s) {
      for (int64_t r = batch.row_begin[s]; r < batch.row_begin[s + 1]; ++r) {
        const int64_t position = batch.first_position[s] + r - batch.row_begin[s];
        for (int64_t h = 0; h < heads; ++h) {
          const auto attend =
              in_blocks_ && cache.shape.dtype == DType::kBF16 ? AttendHeadInBlocks : AttendHead;
          attend(q.f32(r) + h * head_dim, cache, batch, s, position, h / group, scale,
                 out.f32(r) + h * head_dim);
        }
      }
    }
  }

  void AdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments) override {
    ReferenceAdjustLogits(logits, adjustments);
  }
  void ArgMax(TensorView logits, std::span<int32_t> out) override { ReferenceArgMax(logits, out); }
  void LogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) override {
    ReferenceLogSumExp(logits, inverse_temperature, out);
  }
  void Pick(TensorView logits, std::span<const int32_t> ids, std::span<float> out) override {
    CheckPick(logits, ids, out);
    for (size_t i = 0; i < ids.size(); ++i) out[i] = logits.f32()[ids[i]];
  }
  void TopCandidates(TensorView logits, int64_t row, int64_t count,
                     std::vector<Candidate>* out) override {
    ReferenceTopCandidates(logits, row, count, out);
  }

  void ScaleRows(TensorView x, std::span<const float> scale) override {
    CheckScaleRows(x, scale);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t i = 0; i < x.cols; ++i) x.f32(r)[i] *= scale[r];
    }
  }

  void SelectExperts(TensorView logits, int64_t count, bool normalise, std::span<int32_t> experts,
                     std::span<float> shares) override {
    CheckSelectExperts(logits, count, experts, shares);
    for (int64_t r = 0; r < logits.rows; ++r) {
      const std::span<int32_t> chosen = experts.subspan(r * count, count);
      ReferenceChooseExperts(logits.f32(r), logits.cols, chosen);
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t e = 0; e < logits.cols; ++e) {
        largest = std::max<double>(largest, logits.f32(r)[e]);
      }
      double total = 0;
      for (int64_t e = 0; e < logits.cols; ++e) {
        const bool counts =
            !normalise || std::find(chosen.begin(), chosen.end(), e) != chosen.end();
        if (counts || std::isnan(logits.f32(r)[e])) total += std::exp(logits.f32(r)[e] - largest);
      }
      for (int64_t j = 0; j < count; ++j) {
        shares[r * count + j] =
            static_cast<float>(std::exp(logits.f32(r)[chosen[j]] - largest) / total);
      }
    }
  }

  void GatherRows(TensorView in, std::span<const int32_t> rows, TensorView out) override {
    CheckGatherRows(in, rows, out);
    for (int64_t r = 0; r < out.rows; ++r) std::copy_n(in.f32(rows[r]), out.cols, out.f32(r));
  }

  void SumRows(TensorView in, std::span<const int32_t> rows, std::span<const float> weights,
               TensorView out) override {
    CheckSumRows(in, rows, weights, out);
    const int64_t terms = out.rows == 0 ? 0 : static_cast<int64_t>(rows.size()) / out.rows;
    for (int64_t r = 0; r < out.rows; ++r) {
      for (int64_t i = 0; i < out.cols; ++i) {
        double sum = 0;
        for (int64_t j = r * terms; j < (r + 1) * terms; ++j) {
          sum += static_cast<double>(weights[j]) * in.f32(rows[j])[i];
        }
        out.f32(r)[i] = static_cast<float>(sum);
      }
    }
  }

 private:
  const bool in_blocks_;
};

}  // namespace

std::unique_ptr<Backend> CreateReferenceBackend(bool in_blocks) {
  return std::make_unique<ReferenceBackend>(in_blocks);
}

}  // namespace tutti::kernels
