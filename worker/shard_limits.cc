#include "worker/shard_limits.h"

#include "absl/strings/str_cat.h"
#include "model/partition.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

absl::Status InRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("assign_shard.", field, " is ", value, ", not in [", low, ", ", high, "]"));
}

}  // namespace

absl::Status ValidateShard(const v1::AssignShard& shard) {
  TUTTI_RETURN_IF_ERROR(InRange("num_stages", shard.num_stages(), 1, kStagesMax));
  TUTTI_RETURN_IF_ERROR(InRange("stage", shard.stage(), 0, shard.num_stages() - 1));
  TUTTI_RETURN_IF_ERROR(InRange("num_ranks", shard.num_ranks(), 1, model::kLeaves));
  if (model::kLeaves % shard.num_ranks() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("assign_shard.num_ranks is ", shard.num_ranks(),
                                                   ", not a divisor of ", model::kLeaves));
  }
  TUTTI_RETURN_IF_ERROR(InRange("rank", shard.rank(), 0, shard.num_ranks() - 1));
  TUTTI_RETURN_IF_ERROR(InRange("first_layer", shard.first_layer(), 0, INT32_MAX));
  TUTTI_RETURN_IF_ERROR(
      InRange("num_layers", shard.num_layers(), 0, INT32_MAX - shard.first_layer()));
  TUTTI_RETURN_IF_ERROR(
      InRange("block_size", shard.block_size(), kBlockSizeMultiple, kBlockSizeMax));
  if (shard.block_size() % kBlockSizeMultiple != 0) {
    return absl::InvalidArgumentError(absl::StrCat("assign_shard.block_size is ",
                                                   shard.block_size(), ", not a multiple of ",
                                                   kBlockSizeMultiple));
  }
  TUTTI_RETURN_IF_ERROR(InRange("num_blocks", shard.num_blocks(), 1, kBlocksMax));
  TUTTI_RETURN_IF_ERROR(InRange("kept_blocks", shard.kept_blocks(), 0, shard.num_blocks()));
  TUTTI_RETURN_IF_ERROR(InRange("max_batch_tokens", shard.max_batch_tokens(), 1, kBatchTokensMax));
  TUTTI_RETURN_IF_ERROR(InRange("max_sequences", shard.max_sequences(), 1, kSequencesMax));
  TUTTI_RETURN_IF_ERROR(InRange("max_model_len", shard.max_model_len(), 1, kModelLenMax));
  if (shard.num_ranks() > 1 && shard.rank_worker_ids_size() != shard.num_ranks()) {
    return absl::InvalidArgumentError(absl::StrCat("assign_shard.rank_worker_ids names ",
                                                   shard.rank_worker_ids_size(), " workers for ",
                                                   shard.num_ranks(), " ranks"));
  }
  const bool first = shard.stage() == 0;
  const bool last = shard.stage() == shard.num_stages() - 1;
  if (shard.has_embedding() != first || shard.has_head() != last) {
    return absl::InvalidArgumentError(absl::StrCat(
        "assign_shard gives stage ", shard.stage(), " of ", shard.num_stages(),
        shard.has_embedding() ? " an" : " no", " embedding and", shard.has_head() ? " a" : " no",
        " head: the embedding belongs to the first stage, the head to the last"));
  }
  if (shard.draft() && (!shard.has_head() || shard.rank() != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "assign_shard.draft is set for rank ", shard.rank(), " of stage ", shard.stage(), " of ",
        shard.num_stages(), ": the draft model belongs to rank 0 of the last stage"));
  }
  return absl::OkStatus();
}

absl::Status NoDraftModel() {
  return absl::InvalidArgumentError(
      "assign_shard.draft is set, but this worker has no draft model; give it --draft-model");
}

bool SameContents(const v1::AssignShard& a, const v1::AssignShard& b) {
  return a.stage() == b.stage() && a.num_stages() == b.num_stages() && a.rank() == b.rank() &&
         a.num_ranks() == b.num_ranks() && a.first_layer() == b.first_layer() &&
         a.num_layers() == b.num_layers() && a.has_embedding() == b.has_embedding() &&
         a.has_head() == b.has_head() && a.block_size() == b.block_size() &&
         a.num_blocks() == b.num_blocks() && a.max_batch_tokens() == b.max_batch_tokens() &&
         a.max_sequences() == b.max_sequences() && a.max_model_len() == b.max_model_len() &&
         a.whole_experts() == b.whole_experts() && a.numerics_class() == b.numerics_class() &&
         a.quantise() == b.quantise() && a.quantise_head() == b.quantise_head() &&
         a.draft() == b.draft();
}

}  // namespace tutti::worker
