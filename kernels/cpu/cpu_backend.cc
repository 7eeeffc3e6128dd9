#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/cpu_experts.h"
#include "kernels/cpu/cpu_joined.h"
#include "kernels/cpu/cpu_knobs.h"
#include "kernels/cpu/cpu_products.h"
#include "kernels/cpu/cpu_sampling.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/growing_memory.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/kv_layout.h"
#include "kernels/cpu/kv_write.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/slice_count.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/tiles.h"
#include "kernels/family_operators.h"
#include "kernels/limits.h"
#include "kernels/mask_row.h"
#include "kernels/several_classes.h"
#include "kernels/shape_checks.h"
#include "kernels/tunable.h"
#include "kernels/work_meter.h"

namespace tutti::kernels {
namespace cpu {
namespace {

class CpuBackend : public Backend,
                   public FamilyOperators,
                   public WorkMeter,
                   public Tunable,
                   public SeveralClasses {
 public:
  CpuBackend(InstructionSet set, std::vector<std::string> classes, int threads)
      : classes_(std::move(classes)),
        set_(set),
        kernels_(&KernelsOf(set)),
        knobs_(&knobs_of_.try_emplace(set, *kernels_).first->second),
        pool_(threads),
        thread_scratch_(threads),
        products_(&pool_, &thread_scratch_),
        joined_(this, &products_) {
    UseSet();
  }

  std::span<const Knob> knobs() const override { return knobs_->knobs(); }
  int64_t knob_value(size_t knob) const override { return knobs_->value(knob); }
  void SetKnob(size_t knob, int64_t value) override { knobs_->Set(knob, value); }
  std::string TunedFor() const override {
    return absl::StrCat(ProcessorName(), "/", std::string(InstructionSetName(set_)), "/",
                        pool_.threads());
  }

  std::vector<std::string> numerics_classes() const override { return classes_; }
  void ComputeIn(std::string_view numerics_class) override;

  FamilyOperators* family_operators() override { return this; }
  JoinedOperators* joined_operators() override { return &joined_; }
  SeveralClasses* several_classes() override { return this; }
  Tunable* tunable() override { return this; }
  const WorkMeter* work_meter() const override { return this; }
  std::string_view name() const override { return "cpu"; }
  std::string_view numerics_class() const override { return NumericsClassOf(set_); }
  std::string_view remark() const override {
    if (const char* refused = MachineFeatures().amx_refused; refused != nullptr) return refused;
    if (!knobs_->ways_differ()) return "";
    return "bf16 is multiplied by the dot instruction alone, as f32 instructions gave other bits";
  }
  Device device() const override { return {}; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(int64_t bytes) override {
    return AllocateHost(bytes);
  }
  absl::StatusOr<std::unique_ptr<Weight>> Pack(const WeightSource& source) override {
    return PackWeight(source, &pool_);
  }
  absl::StatusOr<std::unique_ptr<Weight>> PackQuantised(const QuantisedSource& source) override {
    return QuantisedWeight::Pack(source, &pool_);
  }

  uint64_t slices_done() const override { return pool_.slices_done(); }
  Work LargestSlice(int64_t rows, int64_t in_features, int64_t element_bytes) const override {
    // Groups that few rows read at once are done at once; many rows may have few in one product,
    // for an expert or to be sampled.
    const double elements =
        static_cast<double>(kGroupColumns) * static_cast<double>(in_features) * pool_.threads();
    const int64_t row_block = set_ == InstructionSet::kAmx ? kAmxRowBlockMost : kRowBlock;
    const int64_t at_once =
        std::max(std::min(rows, row_block), kStreamsMax * std::min(rows, kTileRows));
    return {.bytes = kStreamsMax * elements * static_cast<double>(element_bytes),
            .flops = 2 * elements * static_cast<double>(at_once)};
  }

  void Embed(std::span<const int32_t> ids, const Weight& weight, TensorView out) override;
  void MatMul(TensorView in, const Weight& weight, TensorView out) override;
  void RmsNorm(TensorView in, TensorView weight, float epsilon, TensorView out) override;
  void HeadNormRope(TensorView x, int64_t head_dim, TensorView norm, float epsilon,
                    std::span<const int32_t> positions,
                    std::span<const float> inverse_frequency) override;
  void AddBias(TensorView x, TensorView bias) override;
  void SiluMul(TensorView gate_up, TensorView out) override;
  void AddResidual(TensorView residual, TensorView delta, DType round_to) override;
  void Convert(TensorView in, TensorView out) override;
  int64_t KvLayerBytes(const KvShape& shape) const override;
  void WriteKv(TensorView k, TensorView v, const AttentionBatch& batch,
               const KvLayer& cache) override;
  void Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch, float scale,
                 TensorView out) override;
  void AdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments) override;
  void MaskLogits(TensorView logits, std::span<const int32_t> rows,
                  std::span<const uint32_t> masks) override;
  void ArgMax(TensorView logits, std::span<int32_t> out) override;
  void LogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) override;
  void Pick(TensorView logits, std::span<const int32_t> ids, std::span<float> out) override {
    CheckPick(logits, ids, out);
    CheckDevice("Pick", device(), {&logits});
    for (size_t i = 0; i < ids.size(); ++i) out[i] = logits.f32()[ids[i]];
  }
  void TopCandidates(TensorView logits, int64_t row, int64_t count,
                     std::vector<Candidate>* out) override;

  void ScaleRows(TensorView x, std::span<const float> scale) override;
  void SelectExperts(TensorView logits, int64_t count, bool normalise, std::span<int32_t> experts,
                     std::span<float> shares) override;
  void GatherRows(TensorView in, std::span<const int32_t> rows, TensorView out) override;
  void SumRows(TensorView in, std::span<const int32_t> rows, std::span<const float> weights,
               TensorView out) override;
  void MatMulRounded(TensorView in, std::span<const float> largest, const Weight& weight,
                     TensorView out) override {
    products_.MatMulRounded(in, largest, AsCodes(weight), out);
  }

 private:
  template <class Fn>
  void ForRows(int64_t rows, int64_t cols, const Fn& fn) {
    products_.ForRows(rows, cols, [&fn](int, int64_t r) { fn(r); });
  }
  // kernels_ and knobs_ have changed.
  void UseSet() {
    products_.Use(kernels_, knobs_);
    joined_.Use(kernels_);
  }

  const std::vector<std::string> classes_;
  InstructionSet set_;
  const KernelTable* kernels_;
  std::map<InstructionSet, CpuKnobs> knobs_of_;  // of each that was computed in
  CpuKnobs* knobs_;                              // of set_
  ThreadPool pool_;

  // Owned by the calling thread between operators, by thread i of the pool within one.
  std::vector<Scratch> thread_scratch_;
  CpuProducts products_;
  CpuJoined joined_;
  TopScratch top_scratch_;
  RotaryTable rotary_;
  AttentionPlan plan_;
};

void CpuBackend::ComputeIn(std::string_view numerics_class) {
  if (numerics_class == this->numerics_class()) return;
  const BackendOptions options = {.numerics_class = std::string(numerics_class)};
  set_ = ChooseInstructionSet(MachineFeatures(), options).value();
  kernels_ = &KernelsOf(set_);
  // Made of those that are there the first time only: each set has some that the other lacks.
  knobs_ = &knobs_of_.try_emplace(set_, *kernels_, *knobs_).first->second;
  UseSet();
}

void CpuBackend::Embed(std::span<const int32_t> ids, const Weight& weight, TensorView out) {
  CheckEmbed(ids, weight, out);
  CheckDevice("Embed", device(), {&out});
  const CpuWeight& packed = AsCpu(weight);
  ForRows(out.rows, out.cols, [&](int64_t r) { packed.ReadRow(ids[r], out.f32(r)); });
}

void CpuBackend::MatMul(TensorView in, const Weight& weight, TensorView out) {
  CheckMatMul(in, weight, out);
  CheckDevice("MatMul", device(), {&in, &out});
  products_.MatMul(in, weight, out);
}

void CpuBackend::RmsNorm(TensorView in, TensorView weight, float epsilon, TensorView out) {
  CheckRmsNorm(in, weight, out);
  CheckDevice("RmsNorm", device(), {&in, &weight, &out});
  ForRows(in.rows, in.cols, [&](int64_t r) {
    kernels_->rms_norm(in.f32(r), weight.f32(), epsilon, out.f32(r), in.cols);
  });
}

void CpuBackend::HeadNormRope(TensorView x, int64_t head_dim, TensorView norm, float epsilon,
                              std::span<const int32_t> positions,
                              std::span<const float> inverse_frequency) {
  CheckHeadNormRope(x, head_dim, norm, positions, inverse_frequency);
  CheckDevice("HeadNormRope", device(), {&x, &norm});
  rotary_.Prepare(positions, inverse_frequency);
  const float* norm_weight = norm.data == nullptr ? nullptr : norm.f32();
  ForRows(x.rows, x.cols, [&](int64_t r) {
    kernels_->head_norm_rope(x.f32(r), x.cols / head_dim, head_dim, norm_weight, epsilon,
                             rotary_.cosine(r), rotary_.sine(r));
  });
}

void CpuBackend::AddBias(TensorView x, TensorView bias) {
  CheckAddBias(x, bias);
  CheckDevice("AddBias", device(), {&x, &bias});
  ForRows(x.rows, x.cols,
          [&](int64_t r) { kernels_->add(x.f32(r), bias.f32(), x.cols, DType::kF32); });
}

void CpuBackend::SiluMul(TensorView gate_up, TensorView out) {
  CheckSiluMul(gate_up, out);
  CheckDevice("SiluMul", device(), {&gate_up, &out});
  ForRows(out.rows, out.cols, [&](int64_t r) {
    kernels_->silu_mul(gate_up.f32(r), gate_up.f32(r) + out.cols, out.f32(r), out.cols);
  });
}

void CpuBackend::AddResidual(TensorView residual, TensorView delta, DType round_to) {
  CheckAddResidual(residual, delta);
  CheckDevice("AddResidual", device(), {&residual, &delta});
  ForRows(residual.rows, residual.cols, [&](int64_t r) {
    kernels_->add(residual.f32(r), delta.f32(r), residual.cols, round_to);
  });
}

void CpuBackend::Convert(TensorView in, TensorView out) {
  CheckConvert(in, out);
  CheckConvertDevices(device(), in, out);
  ForRows(in.rows, in.cols, [&](int64_t r) {
    kernels_->convert(in.Rows(r, 1).data, in.dtype, out.Rows(r, 1).data, out.dtype, in.cols);
  });
}

int64_t CpuBackend::KvLayerBytes(const KvShape& shape) const {
  CheckKvShape(shape);
  return shape.num_blocks * KvLayout(shape).block_bytes;
}

void CpuBackend::WriteKv(TensorView k, TensorView v, const AttentionBatch& batch,
                         const KvLayer& cache) {
  CheckWriteKv(k, v, batch, cache);
  CheckDevice("WriteKv", device(), {&k, &v});
  CheckDevice("WriteKv", device(), cache);
  const bool serial = k.rows * k.cols < kSerialElements;
  // Heads never share a cache line, rows may.
  pool_.Split(cache.shape.kv_heads, serial, [&](int, int64_t begin, int64_t end) {
    WriteKvHeads(k, v, batch, cache, begin, end);
  });
}

void CpuBackend::Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch,
                           float scale, TensorView out) {
  CheckAttention(q, cache, batch, out);
  CheckDevice("Attention", device(), {&q, &out});
  CheckDevice("Attention", device(), cache);
  const KvShape& shape = cache.shape;
  const KvLayout layout(shape);
  AttentionJob job = {};
  job.dtype = shape.dtype;
  job.q = q.f32();
  job.q_stride = q.row_stride;
  job.out = out.f32();
  job.out_stride = out.row_stride;
  job.scale = scale;
  job.head_dim = shape.head_dim;
  job.group = q.cols / (shape.kv_heads * shape.head_dim);
  job.cache = static_cast<const uint8_t*>(cache.data);
  job.block_size = shape.block_size;
  job.block_bytes = layout.block_bytes;
  job.head_bytes = layout.head_bytes;
  job.key_bytes = layout.key_bytes;
  job.value_units = layout.value_units;
  job.by_f32 = knobs_->AttentionByF32();
  PlanAttention(batch, shape.kv_heads, job.group, EntriesOfItem(*kernels_, job), pool_.threads(),
                &plan_);
  if (plan_.items.empty()) return;
  const int64_t scratch = AttentionScratchFloats(shape.head_dim);
  pool_.Run([&](int thread) {
    float* floats = thread_scratch_[thread].Floats(scratch);
    for (int64_t i = plan_.thread_begin[thread]; i < plan_.thread_begin[thread + 1]; ++i) {
      kernels_->attend(job, plan_.items[i], floats, pool_.slices(thread));
    }
  });
}

void CpuBackend::AdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments) {
  CheckAdjustLogits(logits, adjustments);
  for (const LogitAdjustment& a : adjustments) {
    float& logit = logits.f32(a.row)[a.id];
    // As a product and a quotient, of which one is by 1: no sign could be foreseen by a branch.
    const uint32_t positive = logit > 0 ? ~uint32_t{0} : 0;
    const auto choose = [positive](float yes, float no) {
      return std::bit_cast<float>((std::bit_cast<uint32_t>(yes) & positive) |
                                  (std::bit_cast<uint32_t>(no) & ~positive));
    };
    logit = logit * choose(1, a.repetition) / choose(a.repetition, 1) + a.bias;
  }
}

void CpuBackend::MaskLogits(TensorView logits, std::span<const int32_t> rows,
                            std::span<const uint32_t> masks) {
  CheckMaskLogits(logits, rows, masks);
  const auto words = static_cast<size_t>(MaskWords(logits.cols));
  ForRows(static_cast<int64_t>(rows.size()), logits.cols, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    MaskRow(logits.f32(rows[at]), masks.subspan(at * words, words), logits.cols);
  });
}

void CpuBackend::ArgMax(TensorView logits, std::span<int32_t> out) {
  CHECK(static_cast<int64_t>(out.size()) == logits.rows);
  ForRows(logits.rows, logits.cols,
          [&](int64_t r) { out[r] = ArgMaxOfRow(*kernels_, logits.f32(r), logits.cols); });
}

void CpuBackend::LogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) {
  CHECK(static_cast<int64_t>(out.size()) == logits.rows);
  ForRows(logits.rows, logits.cols, [&](int64_t r) {
    out[r] = LogSumExpOfRow(*kernels_, logits.f32(r), logits.cols, inverse_temperature);
  });
}

void CpuBackend::TopCandidates(TensorView logits, int64_t row, int64_t count,
                               std::vector<Candidate>* out) {
  CHECK(row >= 0 && row < logits.rows && count >= 0);
  TopOfRow(*kernels_, logits.f32(row), logits.cols, count, &top_scratch_, out);
}

void CpuBackend::ScaleRows(TensorView x, std::span<const float> scale) {
  CheckScaleRows(x, scale);
  ForRows(x.rows, x.cols, [&](int64_t r) {
    for (float& value : std::span(x.f32(r), static_cast<size_t>(x.cols))) value *= scale[r];
  });
}

void CpuBackend::SelectExperts(TensorView logits, int64_t count, bool normalise,
                               std::span<int32_t> experts, std::span<float> shares) {
  CheckSelectExperts(logits, count, experts, shares);
  ForRows(logits.rows, logits.cols, [&](int64_t r) {
    const size_t first = static_cast<size_t>(r * count);
    const size_t size = static_cast<size_t>(count);
    SelectExpertsOfRow(*kernels_, logits.f32(r), logits.cols, normalise,
                       experts.subspan(first, size), shares.subspan(first, size));
  });
}

void CpuBackend::GatherRows(TensorView in, std::span<const int32_t> rows, TensorView out) {
  CheckGatherRows(in, rows, out);
  ForRows(out.rows, out.cols, [&](int64_t r) {
    std::memcpy(out.f32(r), in.f32(rows[r]), static_cast<size_t>(in.cols) * sizeof(float));
  });
}

void CpuBackend::SumRows(TensorView in, std::span<const int32_t> rows,
                         std::span<const float> weights, TensorView out) {
  CheckSumRows(in, rows, weights, out);
  if (out.rows == 0) return;
  const int64_t terms = static_cast<int64_t>(rows.size()) / out.rows;
  ForRows(out.rows, out.cols * terms, [&](int64_t r) {
    float* sum = out.f32(r);
    for (int64_t j = r * terms; j < (r + 1) * terms; ++j) {
      const float* x = in.f32(rows[j]);
      const float weight = weights[j];
      if (j == r * terms) {
        for (int64_t i = 0; i < in.cols; ++i) sum[i] = weight * x[i];
      } else {
        for (int64_t i = 0; i < in.cols; ++i) sum[i] += weight * x[i];
      }
    }
  });
}

}  // namespace
}  // namespace cpu

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options) {
  if (options.num_threads < 0 || options.num_threads > kThreadsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: ", options.num_threads, ", must be in [0, ", kThreadsMax, "]"));
  }
  TUTTI_ASSIGN_OR_RETURN(const cpu::InstructionSet set,
                         cpu::ChooseInstructionSet(cpu::MachineFeatures(), options));
  const int threads = options.num_threads > 0 ? options.num_threads : cpu::AvailableThreads();
  return std::make_unique<cpu::CpuBackend>(set, cpu::ClassesFor(cpu::MachineFeatures(), options),
                                           threads);
}

}  // namespace tutti::kernels
