#include "worker/transformer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "kernels/family_operators.h"
#include "kernels/float_formats.h"
#include "model/partition.h"
#include "worker/sampling/verification.h"

namespace tutti::worker {

using kernels::AttentionBatch;
using kernels::NextNorm;
using kernels::ProductRows;
using kernels::TensorView;

int64_t Transformer::activation_row_bytes() const {
  return config_.hidden_size * DTypeBytes(config_.residual_dtype());
}

kernels::CollectiveTraffic Transformer::rank_traffic() const {
  return options_.place.ranks == 1 ? kernels::CollectiveTraffic() : options_.collective->traffic();
}

Duration Transformer::mask_wait() const {
  return sampler_ == nullptr ? Duration() : sampler_->mask_wait();
}

// The work as if every row met every weight: more than it is where there are experts, and the
// embedding is only looked up.
StageRunner::StepWork Transformer::WorkOf(const Batch& batch) const {
  const double element = static_cast<double>(DTypeBytes(config_.dtype));
  const double weights = static_cast<double>(weights_.bytes());
  const auto layers = static_cast<double>(options_.share.num_layers);
  StepWork work{.all = {.bytes = weights, .flops = 2 * batch.rows * weights / element},
                .largest_slice = {}};
  for (size_t s = 0; s < batch.first_position.size(); ++s) {
    const double rows = batch.row_begin[s + 1] - batch.row_begin[s];
    const double slots = batch.first_position[s] + rows;
    work.all.bytes += 2 * layers * slots * static_cast<double>(widths_.key_value) * element;
    work.all.flops += 4 * layers * rows * slots * static_cast<double>(widths_.query);
  }
  const int64_t widest = std::max({config_.hidden_size, widths_.query, widths_.mlp()});
  work.largest_slice = meter_ == nullptr
                           ? work.all
                           : meter_->LargestSlice(batch.rows, widest, DTypeBytes(config_.dtype));
  return work;
}

absl::Status Transformer::Run(const Batch& batch, std::span<const std::byte> input,
                              std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                              const ProgressCallback& progress) {
  const int64_t rows = batch.rows;
  const int64_t bytes = rows * activation_row_bytes();
  CHECK(rows <= options_.max_batch_tokens);
  CHECK(static_cast<int64_t>(input.size()) == (options_.share.has_embedding ? 0 : bytes));
  CHECK(static_cast<int64_t>(output.size()) == (options_.share.has_head ? 0 : bytes));
  if (options_.place.ranks > 1) options_.collective->BeginStep(batch.step.value());
  TUTTI_RETURN_IF_ERROR(Enter(batch, input));
  rotary_.Prepare(batch);
  joined_->Norm(scratch_.residual.Rows(0, rows), AttentionNorm(0, rows));
  for (int64_t layer = 0; layer < options_.share.num_layers; ++layer) {
    TUTTI_RETURN_IF_ERROR(Attend(layer, batch, progress));
    TUTTI_RETURN_IF_ERROR(Mlp(layer, rows, progress));
    Tell(progress);
  }
  TUTTI_RETURN_IF_ERROR(WaitForDevices());
  const TensorView residual = scratch_.residual.Rows(0, rows);
  std::span<const float> firsts;
  if (options_.share.has_head) {
    TUTTI_RETURN_IF_ERROR(SampleAll(batch, sampled, progress));
    // A step that samples nothing has not waited for the device, which still reads the slot.
    if (InSlot(input.data()) && batch.sample_rows.empty()) FirstsOf(residual);
  } else {
    const TensorView wire = WireView(output.data(), rows);
    backend_->Convert(residual, wire);
    firsts = FirstsOf(wire);
  }
  backend_->EndStep();
  const auto came = [&]() -> std::span<const float> {
    if (input.empty()) return {};
    return FirstsOf(WireView(input.data(), rows));
  };
  // By reference: a copy of it would be an allocation in every step.
  if (!faults_.Begin(batch, firsts, std::ref(came), *sampled)) return absl::OkStatus();
  return NameFaults(batch, input, progress);
}

void Transformer::Await() {
  if (backend_->device() == kernels::Device()) return;
  float first = 0;
  backend_->Convert(scratch_.residual.Rows(0, 1).Columns(0, 1),
                    HostView(&first, DType::kF32, 1, 1));
}

bool Transformer::InSlot(const std::byte* data) const {
  const auto within = [data](std::span<const std::byte> slots) {
    return !slots.empty() && data >= slots.data() && data < slots.data() + slots.size();
  };
  return within(slots_in_) || within(slots_out_);
}

std::span<const float> Transformer::FirstsOf(TensorView rows) {
  firsts_.resize(static_cast<size_t>(rows.rows));
  if (rows.device == kernels::Device()) {
    const auto* const data = static_cast<const std::byte*>(rows.data);
    for (int64_t row = 0; row < rows.rows; ++row) {
      const std::byte* const first = data + row * activation_row_bytes();
      firsts_[row] = kernels::LoadAsF32(first, rows.dtype, 0);
    }
  } else {
    backend_->Convert(rows.Columns(0, 1), HostView(firsts_.data(), DType::kF32, rows.rows, 1));
  }
  return firsts_;
}

// Called before the host waits for its device: see Collective::WaitForDevices.
absl::Status Transformer::WaitForDevices() {
  return options_.place.ranks == 1 ? absl::OkStatus() : options_.collective->WaitForDevices();
}

absl::Status Transformer::Enter(const Batch& batch, std::span<const std::byte> input) {
  const TensorView residual = scratch_.residual.Rows(0, batch.rows);
  if (options_.share.has_embedding) return Embed(batch, residual);
  backend_->Convert(WireView(input.data(), batch.rows), residual);
  return absl::OkStatus();
}

// The step's layers once more, looking after each half: keys and values are written again as they
// are, so nothing changes.
absl::Status Transformer::NameFaults(const Batch& batch, std::span<const std::byte> input,
                                     const ProgressCallback& progress) {
  TUTTI_RETURN_IF_ERROR(Enter(batch, input));
  std::vector<float> first(static_cast<size_t>(batch.rows));
  const auto look = [&](int64_t layer, bool in_mlp) -> absl::Status {
    TUTTI_RETURN_IF_ERROR(WaitForDevices());
    backend_->Convert(scratch_.residual.Rows(0, batch.rows).Columns(0, 1),
                      HostView(first.data(), DType::kF32, batch.rows, 1));
    faults_.Look(first, static_cast<int32_t>(options_.share.first_layer + layer), in_mlp);
    return absl::OkStatus();
  };
  joined_->Norm(scratch_.residual.Rows(0, batch.rows), AttentionNorm(0, batch.rows));
  for (int64_t layer = 0; layer < options_.share.num_layers; ++layer) {
    TUTTI_RETURN_IF_ERROR(Attend(layer, batch, progress));
    TUTTI_RETURN_IF_ERROR(look(layer, false));
    TUTTI_RETURN_IF_ERROR(Mlp(layer, batch.rows, progress));
    TUTTI_RETURN_IF_ERROR(look(layer, true));
    Tell(progress);
  }
  faults_.EndAtHead(static_cast<int32_t>(config_.num_layers));
  return absl::OkStatus();
}

// Each rank has the rows of its own ids. They reach the others in the checkpoint's type, rank by
// rank and in the order of the batch, so nothing is lost and every row travels once.
absl::Status Transformer::Embed(const Batch& batch, TensorView residual) {
  const auto [ranks, rank] = options_.place;
  if (ranks == 1) {
    backend_->Embed(batch.tokens, *weights_.embedding, residual);
    return absl::OkStatus();
  }
  const int64_t row_bytes = config_.hidden_size * DTypeBytes(config_.dtype);
  TUTTI_ASSIGN_OR_RETURN(const std::span<std::byte> rows,
                         options_.collective->Acquire(batch.rows * row_bytes));
  const model::Range own = model::VocabularyOfRank(config_, ranks, rank);
  own_ids_.clear();
  for (const TokenId id : batch.tokens) {
    if (id >= own.begin && id < own.end) own_ids_.push_back(static_cast<int32_t>(id - own.begin));
  }
  embed_begin_.assign(1, 0);
  for (int r = 0; r < ranks; ++r) {
    const model::Range range = model::VocabularyOfRank(config_, ranks, r);
    const int64_t count = std::count_if(batch.tokens.begin(), batch.tokens.end(), [&](TokenId id) {
      return id >= range.begin && id < range.end;
    });
    embed_begin_.push_back(embed_begin_.back() + count * row_bytes);
  }
  const auto row = [&](int64_t offset, int64_t count) {
    return HostView(rows.data() + offset, config_.dtype, count, config_.hidden_size);
  };
  const auto count = static_cast<int64_t>(own_ids_.size());
  if (own.size() > 0) {
    const TensorView embedded = scratch_.normed.Rows(0, count);
    backend_->Embed(own_ids_, *weights_.embedding, embedded);
    backend_->Convert(embedded, row(embed_begin_[rank], count));
  }
  TUTTI_RETURN_IF_ERROR(options_.collective->Gather(embed_begin_));
  std::vector<int64_t> next = embed_begin_;
  for (int64_t r = 0; r < batch.rows; ++r) {
    int owner = 0;
    while (batch.tokens[r] >= model::VocabularyOfRank(config_, ranks, owner).end) ++owner;
    backend_->Convert(row(next[owner], 1), residual.Rows(r, 1));
    next[owner] += row_bytes;
  }
  return absl::OkStatus();
}

NextNorm Transformer::AttentionNorm(int64_t layer, int64_t rows) const {
  if (layer == options_.share.num_layers) return {};
  const LayerWeights& weights = weights_.layers[layer];
  return {.weight = weights.input_norm,
          .epsilon = config_.rms_norm_eps,
          .out = {scratch_.normed.Rows(0, rows), weights.qkv.get()}};
}

// Experts take the rows from where they are.
NextNorm Transformer::MlpNorm(int64_t layer, int64_t rows) const {
  const LayerWeights& weights = weights_.layers[layer];
  return {.weight = weights.post_attention_norm,
          .epsilon = config_.rms_norm_eps,
          .out = {scratch_.normed.Rows(0, rows), weights.gate_up.get()}};
}

// The bias of a product that ranks share is not the product's but the residual's: it is added once,
// by every rank alike, before the sum comes. Rows that were normed are not touched.
void Transformer::AddToResidual(TensorView bias, int64_t rows) {
  if (bias.data != nullptr) backend_->AddBias(scratch_.residual.Rows(0, rows), bias);
}

// residual += output(attention(rope(norm(q)), rope(norm(k)), v)),  [q k v] = qkv(norm(residual))
absl::Status Transformer::Attend(int64_t layer, const Batch& batch,
                                 const ProgressCallback& progress) {
  const int64_t rows = batch.rows;
  const LayerWeights& weights = weights_.layers[layer];
  const TensorView qkv = scratch_.qkv.Rows(0, rows);
  const TensorView q = qkv.Columns(0, widths_.query);
  const ProductRows attended = {scratch_.attended.Rows(0, rows), weights.attention_output.get()};
  const AttentionBatch sequences{.row_begin = batch.row_begin,
                                 .first_position = batch.first_position,
                                 .block_begin = batch.block_begin,
                                 .blocks = batch.blocks};

  joined_->MatMul(AttentionNorm(layer, rows).out, qkv);
  Tell(progress);
  TurnAndCache(layer, qkv, batch, sequences);
  if (!rotary_.query_scale().empty()) {
    backend_->family_operators()->ScaleRows(q, rotary_.query_scale());
  }
  AddToResidual(weights.output_bias, rows);
  joined_->Attention(q, kv_.layer(layer), sequences, attention_scale_, attended);
  Tell(progress);
  TUTTI_RETURN_IF_ERROR(AddProduct(attended, DType::kF32, MlpNorm(layer, rows)));
  Tell(progress);
  return absl::OkStatus();
}

// Bias, norm and rotary embedding of every head, and keys and values into the cache. Sequences of
// one variant turn at a time.
void Transformer::TurnAndCache(int64_t layer, TensorView qkv, const Batch& batch,
                               const AttentionBatch& sequences) {
  const LayerWeights& weights = weights_.layers[layer];
  const std::span<const int32_t> positions = batch.positions;
  const std::span<const StepRotary::Run> runs = rotary_.runs();
  if (runs.size() == 1) {
    return joined_->TurnAndWriteKv(qkv,
                                   {.bias = weights.qkv_bias,
                                    .query_norm = weights.query_norm,
                                    .key_norm = weights.key_norm,
                                    .epsilon = config_.rms_norm_eps,
                                    .positions = positions,
                                    .inverse_frequency = *runs[0].inverse_frequency},
                                   sequences, kv_.layer(layer));
  }
  const TensorView q = qkv.Columns(0, widths_.query);
  const TensorView k = qkv.Columns(widths_.query, widths_.key_value);
  if (weights.qkv_bias.data != nullptr) backend_->AddBias(qkv, weights.qkv_bias);
  for (const StepRotary::Run& run : runs) {
    for (const auto& [x, norm] :
         {std::pair(q, weights.query_norm), std::pair(k, weights.key_norm)}) {
      backend_->HeadNormRope(x.Rows(run.first_row, run.rows), config_.head_dim, norm,
                             config_.rms_norm_eps, positions.subspan(run.first_row, run.rows),
                             *run.inverse_frequency);
    }
  }
  backend_->WriteKv(k, qkv.Columns(widths_.query + widths_.key_value, widths_.key_value), sequences,
                    kv_.layer(layer));
}

// residual = round(residual + down(silu(gate) * up)),  [gate up] = gate_up(norm(residual))
absl::Status Transformer::Mlp(int64_t layer, int64_t rows, const ProgressCallback& progress) {
  const LayerWeights& weights = weights_.layers[layer];
  if (weights.router != nullptr) return Experts(layer, rows, progress);
  const TensorView gate_up = scratch_.gate_up.Rows(0, rows);
  const ProductRows activated = {scratch_.activated.Rows(0, rows), weights.down.get()};

  joined_->MatMul(MlpNorm(layer, rows).out, gate_up);
  Tell(progress);
  if (weights.gate_up_bias.data != nullptr) backend_->AddBias(gate_up, weights.gate_up_bias);
  AddToResidual(weights.down_bias, rows);
  joined_->SiluMul(gate_up, activated);
  return AddProduct(activated, config_.residual_dtype(), AttentionNorm(layer + 1, rows));
}

// Rows of a decode step are all there are, one after another.
void Transformer::MultiplyHead(std::span<const SampleRow> rows, const ProductRows& input,
                               TensorView logits) {
  if (logits.cols == 0) return;  // other ranks have all the tokens
  const auto count = static_cast<int64_t>(rows.size());
  if (rows.back().row - rows.front().row == count - 1) {
    joined_->Norm(scratch_.residual.Rows(rows.front().row, count),
                  {weights_.final_norm, config_.rms_norm_eps, input});
    return joined_->MatMul(input, logits);
  }
  for (int64_t i = 0, end = 0; i < count; i = end) {
    end = i + 1;
    while (end < count && rows[end].row == rows[end - 1].row + 1) ++end;
    backend_->RmsNorm(scratch_.residual.Rows(rows[i].row, end - i), weights_.final_norm,
                      config_.rms_norm_eps, input.rows.Rows(i, end - i));
  }
  backend_->MatMul(input.rows, *input.weight, logits);
}

// logits = head(norm(residual)), for the rows that are sampled only, a slice of them at a time.
absl::Status Transformer::SampleAll(const Batch& batch, std::vector<v1::SampledToken>* sampled,
                                    const ProgressCallback& progress) {
  const std::span<const SampleRow> all = batch.sample_rows;
  const auto slice_rows = static_cast<size_t>(scratch_.logits.rows);
  Verification verification(all, sampled);
  sampler_->BeginStep(all);
  for (size_t first = 0; first < all.size(); first += slice_rows) {
    const auto rows = all.subspan(first, std::min(slice_rows, all.size() - first));
    const auto count = static_cast<int64_t>(rows.size());
    const TensorView logits = scratch_.logits.Rows(0, count);
    const ProductRows input = {scratch_.logit_input.Rows(0, count), weights_.head.get()};
    MultiplyHead(rows, input, logits);
    Tell(progress);
    if (observer_) observer_(rows, logits);
    for (auto due = verification.Next(first + rows.size()); due.size() > 0;
         due = verification.Next(first + rows.size())) {
      const auto due_rows = all.subspan(due.begin, due.size());
      TUTTI_RETURN_IF_ERROR(sampler_->Sample(
          logits.Rows(static_cast<int64_t>(due.begin - first), static_cast<int64_t>(due.size())),
          due_rows, sampled, progress));
      if (token_observer_) token_observer_(due_rows, std::span(*sampled).subspan(due.begin));
    }
  }
  return absl::OkStatus();
}

TensorView Transformer::HostView(void* data, DType dtype, int64_t rows, int64_t cols) {
  return {.data = data, .dtype = dtype, .rows = rows, .cols = cols, .row_stride = cols};
}

TensorView Transformer::WireView(const std::byte* data, int64_t rows) const {
  auto* const memory = const_cast<std::byte*>(data);
  return InSlot(data) ? View(memory, config_.residual_dtype(), rows, config_.hidden_size)
                      : HostView(memory, config_.residual_dtype(), rows, config_.hidden_size);
}

TensorView Transformer::View(void* data, DType dtype, int64_t rows, int64_t cols) const {
  return {.data = data,
          .dtype = dtype,
          .device = backend_->device(),
          .rows = rows,
          .cols = cols,
          .row_stride = cols};
}

}  // namespace tutti::worker
