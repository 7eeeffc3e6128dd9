// The memory of a shard's runner: work space, slots of device links, and their sum.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/device_exchange.h"
#include "model/partition.h"
#include "model/work_space.h"
#include "worker/transformer.h"

namespace tutti::worker {

using kernels::TensorView;

namespace {

// The factor by which YaRN multiplies queries and keys is in the scores twice.
float AttentionScale(const model::ModelConfig& config) {
  const double magnitude = config.rope.attention_factor;
  return static_cast<float>(magnitude * magnitude /
                            std::sqrt(static_cast<double>(config.head_dim)));
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
  transformer->reserved_bytes_ = *held;
  transformer->operator_bytes_ += *held - options.reserved_bytes;
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
      meter_(backend->work_meter()),
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
  const int64_t mlp = widths_.mlp();
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
  scratch_.gate_up = View(wide.data, DType::kF32, rows, 2 * widths_.intermediate);
  scratch_.expert_gate_up = View(wide.data, DType::kF32, rows, 2 * widths_.expert);
  scratch_.attended = View(narrow.data, DType::kF32, rows, widths_.query);
  scratch_.activated = View(narrow.data, DType::kF32, rows, widths_.intermediate);
  scratch_.expert_activated = View(narrow.data, DType::kF32, rows, widths_.expert);
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
    const int64_t bytes =
        kernels::kGpuLinkSlots * options_.max_batch_tokens * activation_row_bytes();
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
    const size_t size = all.size() / kernels::kGpuLinkSlots;
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

StageRunner::DraftModel Transformer::draft() {
  if (draft_ == nullptr) return {};
  return {.runner = draft_.get(),
          .max_model_len = static_cast<int32_t>(draft_->options_.max_model_len)};
}

ShardMemory Transformer::memory() const {
  ShardMemory memory{.weight_bytes = weights_.bytes(), .kv_bytes = kv_.bytes()};
  for (const auto& buffer : buffers_) memory.activation_bytes += buffer->bytes();
  memory.activation_bytes += operator_bytes_;
  if (sampler_ != nullptr) memory.activation_bytes += sampler_->bytes();
  // The buffers of exchanges are the host's.
  if (options_.place.ranks > 1 && backend_->device() == kernels::Device()) {
    memory.activation_bytes += model::CollectiveBuffers(options_.place.ranks) * ExchangeBytes();
  }
  return memory;
}

}  // namespace tutti::worker
