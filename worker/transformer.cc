#include "worker/transformer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/device_exchange.h"
#include "kernels/family_operators.h"
#include "kernels/float_formats.h"
#include "model/partition.h"
#include "model/work_space.h"
#include "worker/limits.h"

namespace tutti::worker {

using kernels::AttentionBatch;
using kernels::KvLayer;
using kernels::NextNorm;
using kernels::ProductRows;
using kernels::TensorView;

namespace {

// What YaRN multiplies queries and keys by, it multiplies scores by twice.
float AttentionScale(const model::ModelConfig& config) {
  const double magnitude = config.rope.attention_factor;
  return static_cast<float>(magnitude * magnitude /
                            std::sqrt(static_cast<double>(config.head_dim)));
}

// After every large operator: a layer of a large model can take longer than a lease on a busy
// machine, and its worker is not lost.
void Tell(const ProgressCallback& progress) {
  if (progress) progress();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(const model::ModelConfig& config,
                                                                 const Options& options,
                                                                 kernels::Backend* backend,
                                                                 ShardWeights weights) {
  std::unique_ptr<Transformer> transformer(
      new Transformer(config, options, backend, std::move(weights)));
  TUTTI_ASSIGN_OR_RETURN(transformer->kv_,
                         KvStore::Create(backend, options.kv, options.share.num_layers));
  TUTTI_RETURN_IF_ERROR(transformer->AllocateScratch());
  TUTTI_RETURN_IF_ERROR(transformer->AllocateSlots());
  auto held = backend->Reserve(model::StepBoundsOf(config, options.share, options.place.ranks,
                                                   options.place.rank, options.step_sizes()));
  if (!held.ok()) return Annotate(held.status(), "work space of the operators");
  transformer->operator_bytes_ += *held;
  if (options.share.has_head) {
    TUTTI_ASSIGN_OR_RETURN(transformer->sampler_,
                           Sampler::Create(backend, transformer->SamplerOptions()));
  }
  return transformer;
}

Transformer::Transformer(const model::ModelConfig& config, const Options& options,
                         kernels::Backend* backend, ShardWeights weights)
    : config_(config),
      options_(options),
      backend_(backend),
      plain_joined_(backend),
      joined_(kernels::JoinedOperators::Of(backend, &plain_joined_)),
      weights_(std::move(weights)),
      widths_(model::WidthsOfRank(config, options.place.ranks, options.place.rank)),
      attention_scale_(AttentionScale(config)),
      rotary_(config) {}

absl::Status Transformer::AllocateScratch() {
  const auto allocate = [&](int64_t rows, int64_t cols) -> absl::StatusOr<TensorView> {
    auto buffer = backend_->Allocate(rows * cols * static_cast<int64_t>(sizeof(float)));
    if (!buffer.ok()) {
      return Annotate(buffer.status(), absl::StrCat("work space [", rows, ", ", cols, "]"));
    }
    buffers_.push_back(*std::move(buffer));
    return View(buffers_.back()->data(), DType::kF32, rows, cols);
  };
  const int64_t rows = options_.max_batch_tokens;
  const int64_t qkv = widths_.query + 2 * widths_.key_value;
  const int64_t mlp = widths_.intermediate;
  TUTTI_ASSIGN_OR_RETURN(scratch_.residual, allocate(rows, config_.hidden_size));
  TUTTI_ASSIGN_OR_RETURN(scratch_.normed, allocate(rows, config_.hidden_size));
  // Ranks whose backend works in host memory put products where they are exchanged.
  const bool own_products = options_.place.ranks == 1 || backend_->device() != kernels::Device();
  if (own_products) {
    TUTTI_ASSIGN_OR_RETURN(scratch_.delta, allocate(rows, config_.hidden_size));
  }
  if (options_.place.ranks > 1) {
    TUTTI_RETURN_IF_ERROR(options_.collective->Reserve(options_.place.ranks, ExchangeBytes()));
    if (kernels::DeviceExchange* const devices = backend_->device_exchange(); devices != nullptr) {
      auto held = devices->Reserve();
      if (!held.ok()) return Annotate(held.status(), "memory for exchanges of devices");
      operator_bytes_ += *held;
    }
  }
  TUTTI_ASSIGN_OR_RETURN(const TensorView wide, allocate(rows, std::max(qkv, 2 * mlp)));
  TUTTI_ASSIGN_OR_RETURN(const TensorView narrow, allocate(rows, std::max(widths_.query, mlp)));
  scratch_.qkv = View(wide.data, DType::kF32, rows, qkv);
  scratch_.gate_up = View(wide.data, DType::kF32, rows, 2 * mlp);
  scratch_.attended = View(narrow.data, DType::kF32, rows, widths_.query);
  scratch_.activated = View(narrow.data, DType::kF32, rows, mlp);
  if (config_.has_experts()) {
    TUTTI_ASSIGN_OR_RETURN(scratch_.router, allocate(rows, config_.num_experts));
    TUTTI_ASSIGN_OR_RETURN(scratch_.gathered, allocate(rows, config_.hidden_size));
    if (own_products) {
      TUTTI_ASSIGN_OR_RETURN(scratch_.results,
                             allocate(model::ExpertRows(config_, rows), config_.hidden_size));
    }
  }
  if (!options_.share.has_head) return absl::OkStatus();
  const int64_t slice = std::min({model::kWorkSpaceLogitRows, options_.max_sequences, rows});
  TUTTI_ASSIGN_OR_RETURN(scratch_.logit_input, allocate(slice, config_.hidden_size));
  TUTTI_ASSIGN_OR_RETURN(scratch_.logits, allocate(slice, widths_.vocab));
  return absl::OkStatus();
}

absl::Status Transformer::AllocateSlots() {
  if (backend_->device() == kernels::Device()) return absl::OkStatus();
  const auto allocate = [&](std::span<std::byte>* slots) -> absl::Status {
    const int64_t bytes = kGpuLinkSlots * options_.max_batch_tokens * activation_row_bytes();
    auto buffer = backend_->Allocate(bytes);
    if (!buffer.ok()) return Annotate(buffer.status(), "slots for device links");
    buffers_.push_back(*std::move(buffer));
    *slots = {static_cast<std::byte*>(buffers_.back()->data()), static_cast<size_t>(bytes)};
    return absl::OkStatus();
  };
  if (!options_.share.has_embedding) TUTTI_RETURN_IF_ERROR(allocate(&slots_in_));
  if (!options_.share.has_head) TUTTI_RETURN_IF_ERROR(allocate(&slots_out_));
  return absl::OkStatus();
}

StageRunner::LinkMemory Transformer::link_memory() const {
  const auto cut = [](std::span<std::byte> all) {
    std::vector<std::span<std::byte>> slots;
    const size_t size = all.size() / kGpuLinkSlots;
    for (; !all.empty(); all = all.subspan(size)) slots.push_back(all.first(size));
    return slots;
  };
  return {.in = cut(slots_in_), .out = cut(slots_out_)};
}

int64_t Transformer::ExchangeBytes() const {
  return model::CollectiveBufferBytes(config_, options_.share.has_head, options_.max_batch_tokens);
}

Sampler::Options Transformer::SamplerOptions() const {
  return {.vocab_size = config_.vocab_size,
          .ranks = options_.place.ranks,
          .rank = options_.place.rank,
          .collective = options_.collective,
          .exchange_bytes = ExchangeBytes()};
}

ShardMemory Transformer::memory() const {
  ShardMemory memory{.weight_bytes = weights_.bytes(), .kv_bytes = kv_.bytes()};
  for (const auto& buffer : buffers_) memory.activation_bytes += buffer->bytes();
  memory.activation_bytes += operator_bytes_;
  if (sampler_ != nullptr) memory.activation_bytes += sampler_->bytes();
  // What ranks exchange through is the host's.
  if (options_.place.ranks > 1 && backend_->device() == kernels::Device()) {
    memory.activation_bytes += model::CollectiveBuffers(options_.place.ranks) * ExchangeBytes();
  }
  return memory;
}

int64_t Transformer::activation_row_bytes() const {
  return config_.hidden_size * DTypeBytes(config_.residual_dtype());
}

kernels::CollectiveTraffic Transformer::rank_traffic() const {
  return options_.place.ranks == 1 ? kernels::CollectiveTraffic() : options_.collective->traffic();
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
  TUTTI_RETURN_IF_ERROR(Settle());
  const TensorView residual = scratch_.residual.Rows(0, rows);
  std::span<const float> firsts;
  if (options_.share.has_head) {
    TUTTI_RETURN_IF_ERROR(SampleAll(batch, sampled));
    // Who samples nothing has not waited for the device, which still reads the slot.
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

// Before the host waits for its device: see Collective::Settle.
absl::Status Transformer::Settle() {
  return options_.place.ranks == 1 ? absl::OkStatus() : options_.collective->Settle();
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
    TUTTI_RETURN_IF_ERROR(Settle());
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
  const TensorView embedded = scratch_.normed.Rows(0, count);
  backend_->Embed(own_ids_, *weights_.embedding, embedded);
  backend_->Convert(embedded, row(embed_begin_[rank], count));
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
  if (config_.has_experts()) return Experts(layer, rows, progress);
  const TensorView gate_up = scratch_.gate_up.Rows(0, rows);
  const ProductRows activated = {scratch_.activated.Rows(0, rows),
                                 weights_.layers[layer].down.get()};

  joined_->MatMul(MlpNorm(layer, rows).out, gate_up);
  Tell(progress);
  joined_->SiluMul(gate_up, activated);
  return AddProduct(activated, config_.residual_dtype(), AttentionNorm(layer + 1, rows));
}

// residual = round(residual + the sum over a token's experts, in their order, of share * MLP of the
// expert), both of norm(residual)
absl::Status Transformer::Experts(int64_t layer, int64_t rows, const ProgressCallback& progress) {
  kernels::FamilyOperators& operators = *backend_->family_operators();
  const LayerWeights& weights = weights_.layers[layer];
  const TensorView residual = scratch_.residual.Rows(0, rows);
  const TensorView normed = scratch_.normed.Rows(0, rows);
  const TensorView router = scratch_.router.Rows(0, rows);

  backend_->MatMul(normed, *weights.router, router);
  routing_.Resize(rows, config_.experts_per_token);
  TUTTI_RETURN_IF_ERROR(Settle());
  operators.SelectExperts(router, config_.experts_per_token, config_.norm_topk_prob,
                          routing_.experts(), routing_.shares());
  routing_.Group(config_.num_experts);

  // Rows of one expert stand together: each of its weights is read once.
  TUTTI_ASSIGN_OR_RETURN(TensorView results, MemoryForResults());
  const model::Range own = model::ExpertsOfRank(config_, options_.place.ranks, options_.place.rank);
  for (int64_t e = own.begin; e < own.end; ++e) {
    const auto tokens = routing_.TokensOf(e);
    if (tokens.empty()) continue;
    const auto n = static_cast<int64_t>(tokens.size());
    const TensorView gathered = scratch_.gathered.Rows(0, n);
    const TensorView gate_up = scratch_.gate_up.Rows(0, n);
    operators.GatherRows(normed, tokens, gathered);
    backend_->MatMul(gathered, *weights.experts[e].gate_up, gate_up);
    const ProductRows activated = {scratch_.activated.Rows(0, n), weights.experts[e].down.get()};
    joined_->SiluMul(gate_up, activated);
    joined_->MatMul(activated, results.Rows(routing_.FirstOf(e), n));
    Tell(progress);
  }
  if (options_.place.ranks > 1) {
    TUTTI_ASSIGN_OR_RETURN(results, ExchangeResults(results));
  }
  operators.SumRows(results, routing_.places(), routing_.shares(), normed);
  joined_->AddResidual(residual, normed, config_.residual_dtype(), AttentionNorm(layer + 1, rows));
  return absl::OkStatus();
}

// [routing_.size(), hidden], in what ranks exchange where that is the backend's memory.
absl::StatusOr<TensorView> Transformer::MemoryForResults() {
  const int64_t count = routing_.size();
  if (options_.place.ranks == 1 || backend_->device() != kernels::Device()) {
    return scratch_.results.Rows(0, count);
  }
  return AcquireRows(count);
}

absl::StatusOr<TensorView> Transformer::AcquireRows(int64_t rows) {
  const int64_t bytes = rows * config_.hidden_size * static_cast<int64_t>(sizeof(float));
  TUTTI_ASSIGN_OR_RETURN(const std::span<std::byte> memory, options_.collective->Acquire(bytes));
  return HostView(memory.data(), DType::kF32, rows, config_.hidden_size);
}

// The ranks' results together: of whole experts all rows, else the sums over the ranks' slices.
//
// Rows stand by expert, so a rank's experts are contiguous, in rank order. With whole experts
// nothing is added: each row is what one rank alone would have made of it.
absl::StatusOr<TensorView> Transformer::ExchangeResults(TensorView results) {
  const auto [ranks, rank] = options_.place;
  kernels::Collective& collective = *options_.collective;
  gather_begin_.clear();
  for (int r = 0; r < ranks; ++r) {
    gather_begin_.push_back(routing_.FirstOf(model::ExpertsOfRank(config_, ranks, r).begin));
  }
  gather_begin_.push_back(results.rows);
  if (collective.on_device()) {
    TUTTI_RETURN_IF_ERROR(config_.whole_experts ? collective.GatherOnDevice(results, gather_begin_)
                                                : collective.SumOnDevice(results));
    return results;
  }
  const bool on_host = backend_->device() == kernels::Device();
  TensorView all = results;
  if (!on_host) {
    TUTTI_ASSIGN_OR_RETURN(all, AcquireRows(results.rows));
    const model::Range own = model::ExpertsOfRank(config_, ranks, rank);
    const int64_t first = routing_.FirstOf(own.begin);
    const int64_t made = routing_.FirstOf(own.end) - first;
    backend_->Convert(results.Rows(first, made), all.Rows(first, made));
  }
  if (config_.whole_experts) {
    for (int64_t& begin : gather_begin_) {
      begin *= config_.hidden_size * static_cast<int64_t>(sizeof(float));
    }
    TUTTI_RETURN_IF_ERROR(collective.Gather(gather_begin_));
  } else {
    TUTTI_ASSIGN_OR_RETURN(const std::span<const float> sum, collective.Sum());
    all = HostView(const_cast<float*>(sum.data()), DType::kF32, results.rows, config_.hidden_size);
  }
  if (on_host) return all;
  backend_->Convert(all, results);
  return results;
}

absl::Status Transformer::AddProduct(const ProductRows& in, DType round_to, const NextNorm& next) {
  const int64_t rows = in.rows.rows;
  const TensorView residual = scratch_.residual.Rows(0, rows);
  if (options_.place.ranks == 1) {
    joined_->AddProduct(in, scratch_.delta.Rows(0, rows), residual, round_to, next);
    return absl::OkStatus();
  }
  if (options_.collective->on_device()) {
    const TensorView delta = scratch_.delta.Rows(0, rows);
    joined_->MatMul(in, delta);
    TUTTI_RETURN_IF_ERROR(options_.collective->SumOnDevice(delta));
    joined_->AddResidual(residual, delta, round_to, next);
    return absl::OkStatus();
  }
  TUTTI_ASSIGN_OR_RETURN(const TensorView to_others, AcquireRows(rows));
  // Exchanges work in host memory. Where that is also the backend's, the product goes there at
  // once.
  const bool on_host = backend_->device() == to_others.device;
  const TensorView delta = on_host ? TensorView() : scratch_.delta.Rows(0, rows);
  joined_->MatMul(in, on_host ? to_others : delta);
  if (!on_host) backend_->Convert(delta, to_others);
  TUTTI_ASSIGN_OR_RETURN(const std::span<const float> sum, options_.collective->Sum());
  const TensorView summed =
      HostView(const_cast<float*>(sum.data()), DType::kF32, rows, config_.hidden_size);
  if (!on_host) backend_->Convert(summed, delta);
  joined_->AddResidual(residual, on_host ? summed : delta, round_to, next);
  return absl::OkStatus();
}

// Rows of a decode step are all there are, one after another.
void Transformer::MultiplyHead(std::span<const SampleRow> rows, const ProductRows& input,
                               TensorView logits) {
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
absl::Status Transformer::SampleAll(const Batch& batch, std::vector<v1::SampledToken>* sampled) {
  const std::span<const SampleRow> all = batch.sample_rows;
  const auto slice_rows = static_cast<size_t>(scratch_.logits.rows);
  for (size_t first = 0; first < all.size(); first += slice_rows) {
    const auto rows = all.subspan(first, std::min(slice_rows, all.size() - first));
    const auto count = static_cast<int64_t>(rows.size());
    const TensorView logits = scratch_.logits.Rows(0, count);
    const ProductRows input = {scratch_.logit_input.Rows(0, count), weights_.head.get()};
    MultiplyHead(rows, input, logits);
    if (observer_) observer_(rows, logits);
    TUTTI_RETURN_IF_ERROR(sampler_->Sample(logits, rows, sampled));
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

namespace {

// The coordinator plans within what we offered; this is for one that does not.
absl::Status CheckMemory(const ModelSource& model, const Transformer::Options& options) {
  const int64_t weights =
      model::ComputeShardBytes(model.config, options.share, options.place.ranks, options.place.rank,
                               model::PackingOf(model.backend->device().kind))
          .total();
  const int64_t kv = model.backend->KvLayerBytes(options.kv) * options.share.num_layers;
  if (model.memory_bytes == 0 || weights + kv <= model.memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the shard takes ", weights, " bytes of weights and ", kv,
                   " bytes of KV cache; this worker may use ", model.memory_bytes));
}

// A backend may lack the operators that only some families need.
absl::Status CheckOperators(const model::ModelConfig& config, kernels::Backend* backend) {
  if (backend->family_operators() != nullptr) return absl::OkStatus();
  if (!config.has_experts() && config.logn_length == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "backend \"", std::string(backend->name()), "\" does not run ", config.architecture,
      ": it has no operators for ", config.has_experts() ? "experts" : "logn attention"));
}

absl::StatusOr<std::unique_ptr<StageRunner>> LoadShard(ModelSource model,
                                                       const v1::AssignShard& shard,
                                                       const LoadProgress& progress) {
  model.config.whole_experts = shard.whole_experts();
  TUTTI_RETURN_IF_ERROR(model::CheckRanks(model.config, shard.num_ranks()));
  if (shard.num_ranks() > 1 && model.collective == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("a stage of ", shard.num_ranks(), " ranks, but no way to the others"));
  }
  if (shard.max_model_len() > model.config.max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat("max_model_len ", shard.max_model_len(),
                                                   " is above the model's context ",
                                                   model.config.max_position_embeddings));
  }
  const Transformer::Options options = {
      .share = {.first_layer = shard.first_layer(),
                .num_layers = shard.num_layers(),
                .has_embedding = shard.has_embedding(),
                .has_head = shard.has_head()},
      .place = {.ranks = shard.num_ranks(), .rank = shard.rank()},
      .kv = {.dtype = model.config.dtype,
             .block_size = shard.block_size(),
             .num_blocks = shard.num_blocks(),
             .kv_heads = model::KvHeadsPerRank(model.config, shard.num_ranks()),
             .head_dim = model.config.head_dim},
      .max_batch_tokens = shard.max_batch_tokens(),
      .max_sequences = shard.max_sequences(),
      .max_model_len = shard.max_model_len(),
      .collective = model.collective};
  TUTTI_RETURN_IF_ERROR(CheckOperators(model.config, model.backend));
  TUTTI_RETURN_IF_ERROR(model::CheckStageShare(model.config, options.share));
  TUTTI_RETURN_IF_ERROR(model.backend->CheckKvSupport(options.kv));
  TUTTI_RETURN_IF_ERROR(CheckMemory(model, options));
  TUTTI_ASSIGN_OR_RETURN(ShardWeights weights, LoadWeights(model.dir, model.config, options.share,
                                                           model.backend, progress, options.place));
  return Transformer::Create(model.config, options, model.backend, std::move(weights));
}

}  // namespace

StageRunnerFactory MakeTransformerFactory(ModelSource model) {
  return [model = std::move(model)](const v1::AssignShard& shard, const LoadProgress& progress) {
    return LoadShard(model, shard, progress);
  };
}

}  // namespace tutti::worker
