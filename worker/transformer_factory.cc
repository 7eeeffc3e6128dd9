// The way from an assign_shard to a loaded Transformer, with the checks before memory is spent.
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/limits.h"
#include "model/partition.h"
#include "worker/shard_config.h"
#include "worker/transformer.h"
#include "worker/weights.h"

namespace tutti::worker {
namespace {

// The coordinator plans within the memory we offered; this is for one that does not.
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
                                                       const ShardProgressCallback& progress) {
  TUTTI_RETURN_IF_ERROR(ApplyShard(shard, &model.config));
  TUTTI_RETURN_IF_ERROR(model::CheckRankShape(model.config, shard.num_ranks()));
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
             .kv_heads = model::KvHeadsPerRank(model.config, shard.num_ranks(), shard.rank()),
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
  return [model = std::move(model)](const v1::AssignShard& shard,
                                    const ShardProgressCallback& progress) {
    return LoadShard(model, shard, progress);
  };
}

}  // namespace tutti::worker
