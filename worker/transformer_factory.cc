// The way from an assign_shard to a loaded Transformer, with the checks before memory is spent.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/limits.h"
#include "model/partition.h"
#include "worker/shard_config.h"
#include "worker/shard_limits.h"
#include "worker/transformer.h"
#include "worker/weights.h"

namespace tutti::worker {
namespace {

// A model as a worker holds it: a share of its target, or a whole draft model.
struct Part {
  const std::string* dir = nullptr;
  const model::ModelConfig* config = nullptr;
  Transformer::Options options;
};

Part PartOf(const std::string& dir, const model::ModelConfig& config,
            const model::StageShare& share, RankPlace place, int64_t max_model_len,
            const v1::AssignShard& shard) {
  return {.dir = &dir,
          .config = &config,
          .options = {.share = share,
                      .place = place,
                      .kv = {.dtype = config.dtype,
                             .block_size = shard.block_size(),
                             .num_blocks = shard.num_blocks(),
                             .kv_heads = model::KvHeadsPerRank(config, place.ranks, place.rank),
                             .head_dim = config.head_dim},
                      .max_batch_tokens = shard.max_batch_tokens(),
                      .max_sequences = shard.max_sequences(),
                      .max_model_len = max_model_len}};
}

Part TargetOf(const ModelSource& model, const v1::AssignShard& shard) {
  Part part = PartOf(model.dir, model.config,
                     {.first_layer = shard.first_layer(),
                      .num_layers = shard.num_layers(),
                      .has_embedding = shard.has_embedding(),
                      .has_head = shard.has_head()},
                     {.ranks = shard.num_ranks(), .rank = shard.rank()}, shard.max_model_len(),
                     shard);
  part.options.collective = model.collective;
  return part;
}

// Of sequences that are longer than its context it guesses nothing more.
Part DraftOf(const DraftSource& draft, const v1::AssignShard& shard) {
  return PartOf(draft.dir, draft.config, model::WholeModel(draft.config), {},
                std::min<int64_t>(shard.max_model_len(), draft.config.max_position_embeddings),
                shard);
}

int64_t WeightBytes(const Part& part, const kernels::Backend& backend) {
  return model::ComputeShardBytes(*part.config, part.options.share, part.options.place.ranks,
                                  part.options.place.rank,
                                  model::PackingOf(backend.device().kind))
      .total();
}

// The coordinator plans within the memory we offered; this is for one that does not.
absl::Status CheckMemory(const ModelSource& model, std::span<const Part> parts) {
  int64_t weights = 0, kv = 0;
  for (const Part& part : parts) {
    weights += WeightBytes(part, *model.backend);
    kv += model.backend->KvLayerBytes(part.options.kv) * part.options.share.num_layers;
  }
  if (model.memory_bytes == 0 || weights + kv <= model.memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the shard takes ", weights, " bytes of weights and ", kv,
                   " bytes of KV cache", parts.size() > 1 ? " with its draft model" : "",
                   "; this worker may use ", model.memory_bytes));
}

// A backend may lack the operators that only some families need.
absl::Status CheckOperators(const model::ModelConfig& config, kernels::Backend* backend) {
  if (backend->family_operators() != nullptr) return absl::OkStatus();
  if (!config.has_experts() && config.logn_length == 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "backend \"", std::string(backend->name()), "\" does not run ", config.architecture,
      ": it has no operators for ", config.has_experts() ? "experts" : "logn attention"));
}

absl::Status CheckPart(const Part& part, kernels::Backend* backend) {
  TUTTI_RETURN_IF_ERROR(CheckOperators(*part.config, backend));
  TUTTI_RETURN_IF_ERROR(model::CheckStageShare(*part.config, part.options.share));
  return backend->CheckKvSupport(part.options.kv);
}

absl::Status CheckTarget(const ModelSource& model, const v1::AssignShard& shard) {
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
  if (shard.draft() && model.draft == nullptr) return NoDraftModel();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Transformer>> LoadPart(const Part& part, kernels::Backend* backend,
                                                      const ShardProgressCallback& progress) {
  TUTTI_ASSIGN_OR_RETURN(ShardWeights weights,
                         LoadWeights(*part.dir, *part.config, part.options.share, backend, progress,
                                     part.options.place));
  return Transformer::Create(*part.config, part.options, backend, std::move(weights));
}

// One behind the other; `progress` counts the bytes of both, those of the second as they will lie
// in memory until it begins.
absl::StatusOr<std::unique_ptr<Transformer>> LoadBoth(const Part& target, Part draft,
                                                      kernels::Backend* backend,
                                                      const ShardProgressCallback& progress) {
  int64_t before = 0;
  const int64_t expected = WeightBytes(draft, *backend);
  TUTTI_ASSIGN_OR_RETURN(auto runner,
                         LoadPart(target, backend, [&](int64_t loaded, int64_t total) {
                           before = total;
                           if (progress) progress(loaded, total + expected);
                         }));
  draft.options.reserved_bytes = runner->reserved_bytes();
  auto beside = LoadPart(draft, backend, [&](int64_t loaded, int64_t total) {
    if (progress) progress(before + loaded, before + total);
  });
  if (!beside.ok()) return Annotate(beside.status(), "the draft model");
  runner->set_draft(*std::move(beside));
  return runner;
}

absl::StatusOr<std::unique_ptr<StageRunner>> LoadShard(ModelSource model,
                                                       const v1::AssignShard& shard,
                                                       const ShardProgressCallback& progress) {
  TUTTI_RETURN_IF_ERROR(ApplyShard(shard, &model.config));
  TUTTI_RETURN_IF_ERROR(CheckTarget(model, shard));
  std::vector<Part> parts = {TargetOf(model, shard)};
  TUTTI_RETURN_IF_ERROR(CheckPart(parts[0], model.backend));
  if (shard.draft()) {
    parts.push_back(DraftOf(*model.draft, shard));
    TUTTI_RETURN_IF_ERROR(Annotate(CheckPart(parts[1], model.backend), "the draft model"));
  }
  TUTTI_RETURN_IF_ERROR(CheckMemory(model, parts));
  // What an earlier shard needed, this one may not: no more is planned than it takes itself.
  model.backend->GiveBack();
  if (shard.draft()) return LoadBoth(parts[0], parts[1], model.backend, progress);
  return LoadPart(parts[0], model.backend, progress);
}

}  // namespace

StageRunnerFactory MakeTransformerFactory(ModelSource model) {
  return [model = std::move(model)](const v1::AssignShard& shard,
                                    const ShardProgressCallback& progress) {
    return LoadShard(model, shard, progress);
  };
}

}  // namespace tutti::worker
