#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/cuda_attention.h"
#include "kernels/cuda/cuda_family_operators.h"
#include "kernels/cuda/cuda_joined_operators.h"
#include "kernels/cuda/cuda_products.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/nccl_exchange.h"
#include "kernels/cuda/nccl_link.h"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/packing.h"
#include "kernels/cuda/row_selection.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sampling.h"
#include "kernels/gpu_memory.h"
#include "kernels/mask_row.h"

namespace tutti::kernels::cuda {
namespace {

static_assert(sizeof(DeviceCandidate) == kGpuCandidateBytes);

GraphCache::Limits GraphLimits(bool graphs) {
  GraphCache::Limits limits;
  if (!graphs) limits.graphs = 0;
  return limits;
}

class CudaBackend : public Backend {
 public:
  CudaBackend(std::unique_ptr<Runtime> runtime, std::string numerics_class, NcclOptions nccl,
              const BackendOptions& options, const WideProducts& wide)
      : device_{DeviceKind::kCuda, nccl.device_index},
        numerics_class_(std::move(numerics_class)),
        runtime_(std::make_unique<LaunchQueue>(std::move(runtime), GraphLimits(options.graphs),
                                               options.early_kernels)),
        nccl_(nccl),
        exchange_(runtime_.get(), std::move(nccl)),
        remark_(wide.remark),
        products_(runtime_.get(), wide),
        attention_(runtime_.get(), wide.attends) {}

  FamilyOperators* family_operators() override { return &family_operators_; }
  JoinedOperators* joined_operators() override { return &joined_operators_; }
  DeviceExchange* device_exchange() override { return &exchange_; }
  std::unique_ptr<DeviceLink> NewDeviceLink() override { return std::make_unique<NcclLink>(nccl_); }

  std::string_view name() const override { return "cuda"; }
  std::string_view numerics_class() const override { return numerics_class_; }
  bool exact() const override { return products_.exact(); }
  Device device() const override { return device_; }
  // Without what the kernels of a library will take.
  int64_t FreeDeviceBytes() override {
    const int64_t kept = products_.exact() ? 0 : kGpuCublasCodeBytes;
    return std::max<int64_t>(0, runtime_->FreeBytes() - kept);
  }
  void EndStep() override { runtime_->EndStep(); }
  LaunchCounts launch_counts() const override { return runtime_->counts(); }
  std::string_view remark() const override { return remark_; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(int64_t bytes) override {
    return CudaBuffer::Make(runtime_.get(), bytes);
  }
  absl::StatusOr<std::unique_ptr<Weight>> Pack(const WeightSource& source) override {
    return products_.Pack(source);
  }
  absl::StatusOr<std::unique_ptr<Weight>> PackQuantised(const QuantisedSource& source) override {
    return products_.PackQuantised(source);
  }
  absl::StatusOr<int64_t> Reserve(const StepBounds& bounds) override {
    const GpuWorkBytes work = GpuWorkBytesOf(bounds, products_.bounds());
    const GpuArrayBytes each = GpuArrayBytesOf(bounds);
    TUTTI_RETURN_IF_ERROR(results_.Reserve(work.results));
    TUTTI_RETURN_IF_ERROR(ids_.Reserve(each.rows));
    int64_t held = results_.bytes() + ids_.bytes();
    for (WorkSpace* const space : {&entering_, &leaving_}) {
      TUTTI_RETURN_IF_ERROR(space->Reserve(work.carried));
      held += space->bytes();
    }
    for (Uploads* const uploads : of_vocabulary_) {
      TUTTI_RETURN_IF_ERROR(uploads->Reserve(each.vocabulary));
      held += uploads->bytes();
    }
    TUTTI_RETURN_IF_ERROR(products_.Reserve(work));
    TUTTI_RETURN_IF_ERROR(attention_.Reserve(work, each));
    TUTTI_RETURN_IF_ERROR(family_operators_.Reserve(work, each));
    return held + products_.bytes() + attention_.bytes() + family_operators_.bytes();
  }
  void GiveBack() override {
    for (WorkSpace* const space : {&entering_, &leaving_, &results_}) space->GiveBack();
    for (Uploads* const uploads : of_vocabulary_) uploads->GiveBack();
    ids_.GiveBack(), products_.GiveBack(), attention_.GiveBack();
    family_operators_.GiveBack(), exchange_.GiveBack();
  }

  void Embed(std::span<const int32_t> ids, const Weight& weight, TensorView out) override {
    CheckEmbed(ids, weight, out);
    const CudaWeight& w = CudaWeight::OfNumbers(weight);
    CheckOperands("Embed", device_, *runtime_, {&out});
    LaunchEmbed({.weight = w.data(),
                 .ids = ids_.Get(ids),
                 .out = out.f32(),
                 .out_stride = Stride(out),
                 .padded_out = w.padded_out(),
                 .leaves = w.leaves(),
                 .rows = static_cast<int32_t>(out.rows),
                 .type = w.dtype(),
                 .plain_rows = w.plain_rows()},
                runtime_.get());
  }

  void MatMul(TensorView in, const Weight& weight, TensorView out) override {
    CheckMatMul(in, weight, out);
    const CudaWeight& w = CudaWeight::Of(weight);
    CheckOperands("MatMul", device_, *runtime_, {&in, &out});
    products_.MatMul(in, w, out);
  }

  void RmsNorm(TensorView in, TensorView weight, float epsilon, TensorView out) override {
    CheckRmsNorm(in, weight, out);
    CheckOperands("RmsNorm", device_, *runtime_, {&in, &weight, &out});
    LaunchRmsNorm({.in = in.f32(),
                   .in_stride = Stride(in),
                   .weight = weight.f32(),
                   .out = out.f32(),
                   .out_stride = Stride(out),
                   .rows = in.rows,
                   .cols = in.cols,
                   .epsilon = epsilon},
                  runtime_.get());
  }

  void HeadNormRope(TensorView x, int64_t head_dim, TensorView norm, float epsilon,
                    std::span<const int32_t> positions,
                    std::span<const float> inverse_frequency) override {
    CheckHeadNormRope(x, head_dim, norm, positions, inverse_frequency);
    CheckOperands("HeadNormRope", device_, *runtime_, {&x, &norm});
    attention_.HeadNormRope(x, head_dim, norm, epsilon, positions, inverse_frequency);
  }

  void AddBias(TensorView x, TensorView bias) override {
    CheckAddBias(x, bias);
    CheckOperands("AddBias", device_, *runtime_, {&x, &bias});
    ElementArgs args = Elements(x, x);
    args.b = bias.f32();
    LaunchAddRow(args, runtime_.get());
  }

  void SiluMul(TensorView gate_up, TensorView out) override {
    CheckSiluMul(gate_up, out);
    CheckOperands("SiluMul", device_, *runtime_, {&gate_up, &out});
    LaunchSiluMul(Elements(gate_up, out), runtime_.get());
  }

  void AddResidual(TensorView residual, TensorView delta, DType round_to) override {
    CheckAddResidual(residual, delta);
    CheckOperands("AddResidual", device_, *runtime_, {&residual, &delta});
    ElementArgs args = Elements(residual, residual);
    args.b = delta.f32();
    args.b_stride = Stride(delta);
    args.out_type = round_to;
    LaunchAddRounded(args, runtime_.get());
  }

  void Convert(TensorView in, TensorView out) override {
    CheckConvert(in, out);
    CheckConvertDevices(device_, in, out);
    if (in.rows == 0 || in.cols == 0) return;
    if (in.device == device_) CheckOperands("Convert", device_, *runtime_, {&in});
    if (out.device == device_) CheckOperands("Convert", device_, *runtime_, {&out});
    const TensorView from = in.device == device_ ? in : UploadCompact(in);
    const TensorView to = out.device == device_ ? out : Compact(out, &leaving_);
    LaunchConvert(Elements(from, to), runtime_.get());
    if (out.device == device_) return;
    const int64_t width = out.cols * DTypeBytes(out.dtype);
    runtime_->Download(out.data, Stride(out) * DTypeBytes(out.dtype), to.data, width, width,
                       out.rows);
  }

  absl::Status CheckKvSupport(const KvShape& shape) const override {
    if (GpuPaddedHeadDim(shape.head_dim, shape.dtype == DType::kF32) > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("heads of " + std::to_string(shape.head_dim) +
                                      " dimensions; the CUDA kernels attend over at most " +
                                      std::to_string(kHeadDimMax));
  }

  int64_t KvLayerBytes(const KvShape& shape) const override {
    CheckKvShape(shape);
    const KvLayout layout = LayoutOf(shape);
    CHECK(layout.dim > 0) << "head_dim " << shape.head_dim;
    return shape.num_blocks * shape.block_size * shape.kv_heads * layout.dim * 2 *
           DTypeBytes(shape.dtype);
  }

  void WriteKv(TensorView k, TensorView v, const AttentionBatch& batch,
               const KvLayer& cache) override {
    CheckWriteKv(k, v, batch, cache);
    CheckOperands("WriteKv", device_, *runtime_, {&k, &v});
    CheckCache("WriteKv", cache);
    attention_.WriteKv(k, v, batch, cache);
  }

  void Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch, float scale,
                 TensorView out) override {
    CheckAttention(q, cache, batch, out);
    CheckOperands("Attention", device_, *runtime_, {&q, &out});
    CheckCache("Attention", cache);
    attention_.Attention(q, cache, batch, scale, out);
  }

  void AdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments) override {
    CheckAdjustLogits(logits, adjustments);
    CheckOperands("AdjustLogits", device_, *runtime_, {&logits});
    // Those of one logit keep their order; a thread does each logit.
    std::vector<int32_t> order(adjustments.size());
    std::iota(order.begin(), order.end(), 0);
    const auto place = [&](int32_t i) { return std::pair(adjustments[i].row, adjustments[i].id); };
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return place(a) < place(b); });
    std::vector<int32_t> row, id, first;
    std::vector<float> repetition, bias;
    for (size_t i = 0; i < order.size(); ++i) {
      const LogitAdjustment& adjustment = adjustments[order[i]];
      if (i == 0 || place(order[i]) != place(order[i - 1])) {
        row.push_back(adjustment.row);
        id.push_back(adjustment.id);
        first.push_back(static_cast<int32_t>(i));
      }
      repetition.push_back(adjustment.repetition);
      bias.push_back(adjustment.bias);
    }
    first.push_back(static_cast<int32_t>(order.size()));
    // Ids seen so far grow with every token: up to a round number, by logits without adjustments.
    const size_t count =
        (row.size() + kAdjustmentsTogether - 1) / kAdjustmentsTogether * kAdjustmentsTogether;
    row.resize(count);
    id.resize(count);
    first.resize(count + 1, first.back());
    LaunchAdjust({.logits = logits.f32(),
                  .stride = Stride(logits),
                  .count = static_cast<int64_t>(count),
                  .row = adjusted_rows_.Get(std::span<const int32_t>(row)),
                  .id = adjusted_ids_.Get(std::span<const int32_t>(id)),
                  .first = adjusted_first_.Get(std::span<const int32_t>(first)),
                  .repetition = repetitions_.Get(std::span<const float>(repetition)),
                  .bias = biases_.Get(std::span<const float>(bias))},
                 runtime_.get());
  }

  // As many rows at a time as the memory for a row's adjustments holds masks of.
  void MaskLogits(TensorView logits, std::span<const int32_t> rows,
                  std::span<const uint32_t> masks) override {
    CheckMaskLogits(logits, rows, masks);
    CheckOperands("MaskLogits", device_, *runtime_, {&logits});
    const auto words = static_cast<size_t>(MaskWords(logits.cols));
    const size_t together = static_cast<size_t>(logits.cols) / words;
    const std::span bits(reinterpret_cast<const int32_t*>(masks.data()), masks.size());
    for (size_t first = 0; first < rows.size(); first += together) {
      const auto some = rows.subspan(first, std::min(together, rows.size() - first));
      LaunchMask({.logits = logits.f32(),
                  .stride = Stride(logits),
                  .row = adjusted_rows_.Get(some),
                  .masks = adjusted_ids_.Get(bits.subspan(first * words, some.size() * words)),
                  .vocab = static_cast<int32_t>(logits.cols),
                  .rows = static_cast<int32_t>(some.size()),
                  .words = static_cast<int32_t>(words)},
                 runtime_.get());
    }
  }

  void ArgMax(TensorView logits, std::span<int32_t> out) override {
    CHECK(out.size() == static_cast<size_t>(logits.rows));
    std::vector<Candidate> bests(out.size());
    Bests(logits, bests);
    for (size_t r = 0; r < out.size(); ++r) out[r] = bests[r].id;
  }
  void Bests(TensorView logits, std::span<Candidate> out) override {
    CHECK(out.size() == static_cast<size_t>(logits.rows));
    CheckOperands("Bests", device_, *runtime_, {&logits});
    selection_.Bests(logits, out);
  }
  void Summarize(TensorView logits, const LogitQuestions& questions,
                 const LogitAnswers& answers) override {
    CHECK(answers.bests.size() == static_cast<size_t>(logits.rows));
    CHECK(answers.sums.size() == questions.inverse_temperatures.size() * questions.ranges.size());
    CHECK(answers.listed.size() == questions.listed.size() * static_cast<size_t>(questions.places));
    CheckOperands("Summarize", device_, *runtime_, {&logits});
    selection_.Summarize(logits, questions, answers);
  }

  void LogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) override {
    LogitsArgs args = Logits("LogSumExp", logits, out.size());
    args.inverse_temperature = inverse_temperature;
    args.log_sum = results_.Of<double>(logits.rows);
    LaunchLogSumExp(args, runtime_.get());
    runtime_->Download(out.data(), 8, args.log_sum, 8, 8, logits.rows);
  }

  void Pick(TensorView logits, std::span<const int32_t> ids, std::span<float> out) override {
    CheckPick(logits, ids, out);
    CheckOperands("Pick", device_, *runtime_, {&logits});
    const auto count = static_cast<int64_t>(ids.size());
    float* const picked = results_.Of<float>(count);
    LaunchPick({.logits = logits.f32(), .ids = picked_ids_.Get(ids), .count = count, .out = picked},
               runtime_.get());
    runtime_->Download(out.data(), 4 * count, picked, 4 * count, 4 * count, 1);
  }

  void TopCandidates(TensorView logits, int64_t row, int64_t count,
                     std::vector<Candidate>* out) override {
    CHECK(row >= 0 && row < logits.rows && count >= 0);
    CheckOperands("TopCandidates", device_, *runtime_, {&logits});
    selection_.OneRow(logits, row, count, out);
  }
  void TopCandidatesOfRows(TensorView logits, std::span<const int32_t> rows, int64_t count,
                           std::span<Candidate> out) override {
    CHECK(out.size() == rows.size() * static_cast<size_t>(count));
    CheckOperands("TopCandidatesOfRows", device_, *runtime_, {&logits});
    selection_.Rows(logits, rows, count, out);
  }

 private:
  void CheckCache(const char* operation, const KvLayer& cache) const {
    CheckDevice(operation, device_, cache);
    CHECK(runtime_->Holds(cache.data, KvLayerBytes(cache.shape))) << operation << ": the KV cache";
  }
  LogitsArgs Logits(const char* operation, const TensorView& logits, size_t outputs) const {
    CHECK(outputs == static_cast<size_t>(logits.rows));
    CheckOperands(operation, device_, *runtime_, {&logits});
    return {.logits = logits.f32(),
            .stride = Stride(logits),
            .rows = logits.rows,
            .vocab = logits.cols};
  }

  static ElementArgs Elements(const TensorView& a, const TensorView& out) {
    return {.a = a.data,
            .a_stride = Stride(a),
            .out = out.data,
            .out_stride = Stride(out),
            .rows = out.rows,
            .cols = out.cols,
            .a_type = a.dtype,
            .out_type = out.dtype};
  }

  // `view`'s shape without gaps, in work space.
  TensorView Compact(const TensorView& view, WorkSpace* space) {
    TensorView compact = view;
    compact.device = device_;
    compact.row_stride = view.cols;
    compact.data = space->AtLeast(view.rows * view.cols * DTypeBytes(view.dtype));
    return compact;
  }
  TensorView UploadCompact(const TensorView& in) {
    const TensorView compact = Compact(in, &entering_);
    const int64_t width = in.cols * DTypeBytes(in.dtype);
    runtime_->Upload(compact.data, width, in.data, Stride(in) * DTypeBytes(in.dtype), width,
                     in.rows);
    return compact;
  }

  const Device device_;
  const std::string numerics_class_;
  const std::unique_ptr<LaunchQueue> runtime_;
  const NcclOptions nccl_;
  NcclExchange exchange_;
  const std::string remark_;

  WorkSpace entering_{runtime_.get()}, leaving_{runtime_.get()}, results_{runtime_.get()};
  Uploads ids_{runtime_.get()}, picked_ids_{runtime_.get()};
  RowSelection selection_{runtime_.get(), &results_, &picked_ids_};
  Uploads adjusted_rows_{runtime_.get()}, adjusted_ids_{runtime_.get()};
  Uploads adjusted_first_{runtime_.get()}, repetitions_{runtime_.get()}, biases_{runtime_.get()};
  Uploads* const of_vocabulary_[6] = {&picked_ids_,     &adjusted_rows_, &adjusted_ids_,
                                      &adjusted_first_, &repetitions_,   &biases_};
  CudaProducts products_;
  CudaAttention attention_;
  CudaFamilyOperators family_operators_{runtime_.get(), device_};
  CudaJoinedOperators joined_operators_{this, runtime_.get(), &products_, &attention_};
};

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend(std::unique_ptr<Runtime> runtime,
                                         std::string numerics_class, NcclOptions nccl,
                                         const BackendOptions& options, const WideProducts& wide) {
  return std::make_unique<CudaBackend>(std::move(runtime), std::move(numerics_class),
                                       std::move(nccl), options, wide);
}

}  // namespace tutti::kernels::cuda
