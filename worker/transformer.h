// The forward pass of one shard, as a list of calls into kernels/backend.h. One class runs every
// family that model/family.h describes.
//
// The residual stream is f32 and holds values of ModelConfig::residual_dtype() at every layer's
// end, so rows that cross a stage boundary in that type are exact and the number of stages cannot
// be seen in the result. Inside a layer everything stays f32.
//
// Its functions are in four files, because experts are a pass of their own
// (transformer_experts.cc), products that ranks share are exchanges (transformer_products.cc), and
// memory is counted before any pass (transformer_memory.cc).
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/collective.h"
#include "kernels/joined_operators.h"
#include "model/model_config.h"
#include "model/partition.h"
#include "model/weight_map.h"
#include "model/work_space.h"
#include "worker/expert_routing.h"
#include "worker/kv_store.h"
#include "worker/numeric_faults.h"
#include "worker/sampling/sampler.h"
#include "worker/stage_runner.h"
#include "worker/step_rotary.h"
#include "worker/weights.h"

namespace tutti::worker {

// A model that may stand beside a shard, as a whole.
struct DraftSource {
  std::string dir;            // the checkpoint
  model::ModelConfig config;  // of that checkpoint
};

// The source of a shard's runner.
struct ModelSource {
  std::string dir;            // the checkpoint
  model::ModelConfig config;  // of that checkpoint
  kernels::Backend* backend = nullptr;
  int64_t memory_bytes = 0;  // for weights and KV cache of a shard at most; 0: all there is
  // The link to the other ranks of the stage. Null: shards of one rank only.
  kernels::Collective* collective = nullptr;
  // For shards with AssignShard.draft; null: there are none.
  std::shared_ptr<const DraftSource> draft;
};

// Loads shards of `model`.  REQUIRES: backend and collective outlive the factory and its runners.
//
// The factory's errors: INVALID_ARGUMENT for a shard the model does not have (layers, ranks,
// context, a draft model) and for a checkpoint that does not fit its configuration;
// RESOURCE_EXHAUSTED when memory is short, or a shard would take more than it may, with its draft
// model.
StageRunnerFactory MakeTransformerFactory(ModelSource model);

class Transformer : public StageRunner {
 public:
  struct Options {
    model::StageShare share;
    RankPlace place;
    kernels::KvShape kv;  // of the rank's own heads
    int64_t max_batch_tokens = 0;
    int64_t max_sequences = 0;
    int64_t max_model_len = 0;
    kernels::Collective* collective = nullptr;  // null for one rank
    // Of the backend's memory for operators (Backend::Reserve), which models share: what is counted
    // with another one.
    int64_t reserved_bytes = 0;

    model::StepSizes step_sizes() const {
      return {.max_batch_tokens = max_batch_tokens,
              .max_sequences = max_sequences,
              .max_model_len = max_model_len,
              .block_size = kv.block_size};
    }
  };

  static absl::StatusOr<std::unique_ptr<Transformer>> Create(const model::ModelConfig& config,
                                                             const Options& options,
                                                             kernels::Backend* backend,
                                                             ShardWeights weights);

  ShardMemory memory() const override;
  std::span<const model::ChunkRun> read() const override { return weights_.read; }
  int64_t activation_row_bytes() const override;
  int32_t vocab_size() const override { return static_cast<int32_t>(config_.vocab_size); }
  LinkMemory link_memory() const override;
  kernels::CollectiveTraffic rank_traffic() const override;
  Duration mask_wait() const override;
  std::vector<v1::NumericFault> PopFaults() override { return faults_.Pop(); }
  DraftModel draft() override;
  StepWork WorkOf(const Batch& batch) const override;
  absl::Status Run(const Batch& batch, std::span<const std::byte> input,
                   std::span<std::byte> output, std::vector<v1::SampledToken>* sampled,
                   const ProgressCallback& progress) override;
  void Await() override;

  // The model that draft() tells.
  void set_draft(std::unique_ptr<Transformer> draft) { draft_ = std::move(draft); }
  // What the backend held for operators when this was made, of this model and those before.
  int64_t reserved_bytes() const { return reserved_bytes_; }

  // Sees the logits of every slice of sample rows before they are sampled, on the last stage; for
  // tests and measurements.  [rows, the rank's part of the vocabulary] f32
  using LogitsObserver =
      std::function<void(std::span<const SampleRow> rows, kernels::TensorView logits)>;
  void set_logits_observer(LogitsObserver observer) { observer_ = std::move(observer); }
  // Sees what was drawn for rows, and may put another token in its place; for measurements.
  using TokenObserver =
      std::function<void(std::span<const SampleRow> rows, std::span<v1::SampledToken> drawn)>;
  void set_token_observer(TokenObserver observer) { token_observer_ = std::move(observer); }

 private:
  // Work space of the largest step. Pages that no step touches never become resident.
  struct Scratch {
    kernels::TensorView residual;  // [max_batch_tokens, hidden]
    kernels::TensorView normed;    // [max_batch_tokens, hidden]
    kernels::TensorView delta;     // [max_batch_tokens, hidden]; the collective's over ranks
    // Widths are the rank's own. Attention and MLP take turns with the same memory.
    kernels::TensorView qkv;        // [max_batch_tokens, q_width + 2 kv_width]
    kernels::TensorView attended;   // [max_batch_tokens, q_width]
    kernels::TensorView gate_up;    // [max_batch_tokens, 2 intermediate]
    kernels::TensorView activated;  // [max_batch_tokens, intermediate]
    // The same two, of one expert.
    kernels::TensorView expert_gate_up, expert_activated;
    kernels::TensorView router;    // [max_batch_tokens, experts]
    kernels::TensorView gathered;  // [max_batch_tokens, hidden]
    kernels::TensorView results;   // [ExpertRows, hidden]; the collective's over ranks
    // Logits of a slice of the sample rows.
    kernels::TensorView logit_input;  // [slice, hidden]
    kernels::TensorView logits;       // [slice, vocab]
  };

  Transformer(const model::ModelConfig& config, const Options& options, kernels::Backend* backend,
              ShardWeights weights);
  absl::Status AllocateScratch();
  absl::Status AllocateSlots();
  int64_t ExchangeBytes() const;  // the most that ranks exchange at once
  Sampler::Options SamplerOptions() const;
  // The residual of the step's rows, from their tokens or from the stage before.
  absl::Status Enter(const Batch& batch, std::span<const std::byte> input);
  absl::Status Embed(const Batch& batch, kernels::TensorView residual);
  absl::Status NameFaults(const Batch& batch, std::span<const std::byte> input,
                          const ProgressCallback& progress);
  // The two halves of a layer of the share. Each begins with rows that are normed, and norms them
  // for what follows it.
  absl::Status Attend(int64_t layer, const Batch& batch, const ProgressCallback& progress);
  absl::Status Mlp(int64_t layer, int64_t rows, const ProgressCallback& progress);
  absl::Status Experts(int64_t layer, int64_t rows, const ProgressCallback& progress);
  // The norm with which a half begins; none after the last layer.
  kernels::NextNorm AttentionNorm(int64_t layer, int64_t rows) const;
  kernels::NextNorm MlpNorm(int64_t layer, int64_t rows) const;
  void TurnAndCache(int64_t layer, kernels::TensorView qkv, const Batch& batch,
                    const kernels::AttentionBatch& sequences);
  void AddToResidual(kernels::TensorView bias, int64_t rows);
  absl::StatusOr<kernels::TensorView> MemoryForResults();
  absl::StatusOr<kernels::TensorView> ExchangeResults(kernels::TensorView results);
  absl::StatusOr<kernels::TensorView> AcquireRows(int64_t rows);
  absl::Status WaitForDevices();
  // residual = round(residual + the product of `in`, summed over ranks), and its norm.
  absl::Status AddProduct(const kernels::ProductRows& in, DType round_to,
                          const kernels::NextNorm& next);
  // The largest magnitudes of rows of which each rank has a part, to largest_.
  absl::Status FindLargest(kernels::TensorView part);
  // logits = head(norm(residual)) of a slice of sample rows, through the memory of `input`.
  void MultiplyHead(std::span<const SampleRow> rows, const kernels::ProductRows& input,
                    kernels::TensorView logits);
  absl::Status SampleAll(const Batch& batch, std::vector<v1::SampledToken>* sampled,
                         const ProgressCallback& progress);
  // A view of the backend's memory, and of the host's.
  kernels::TensorView View(void* data, DType dtype, int64_t rows, int64_t cols) const;
  static kernels::TensorView HostView(void* data, DType dtype, int64_t rows, int64_t cols);
  // Rows of the residual stream as they cross a link, in the host's memory or a slot of
  // link_memory.
  kernels::TensorView WireView(const std::byte* data, int64_t rows) const;
  bool InSlot(const std::byte* data) const;
  // Their first elements, from device memory once the device is through.
  std::span<const float> FirstsOf(kernels::TensorView rows);

  const model::ModelConfig config_;
  const Options options_;
  kernels::Backend* const backend_;
  kernels::JoinedOperators plain_joined_;
  kernels::JoinedOperators* const joined_;  // the backend's, or those
  const kernels::WorkMeter* const meter_;   // the backend's; null: it has none
  const ShardWeights weights_;
  const model::RankWidths widths_;
  const float attention_scale_;

  KvStore kv_;
  std::vector<std::unique_ptr<kernels::DeviceBuffer>> buffers_;
  std::span<std::byte> slots_in_, slots_out_;  // on a GPU, for its device links
  int64_t operator_bytes_ = 0;                 // held by the backend for its operators
  int64_t reserved_bytes_ = 0;
  Scratch scratch_;
  StepRotary rotary_;
  ExpertRouting routing_;
  NumericFaults faults_;
  std::unique_ptr<Sampler> sampler_;  // on the last stage
  std::unique_ptr<Transformer> draft_;  // null: none
  LogitsObserver observer_;
  TokenObserver token_observer_;
  // The ids of the rows that each rank embeds; kept for their memory.
  std::vector<int32_t> own_ids_;
  std::vector<int64_t> embed_begin_;
  std::vector<float> firsts_;          // of a step's rows
  std::vector<float> largest_;         // of rows that a product rounds
  std::vector<int64_t> gather_begin_;  // where the ranks' experts' results begin
};

}  // namespace tutti::worker
