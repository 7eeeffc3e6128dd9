// The shards that the workers of a pipeline are told to hold, how they get on with it, and what
// they have kept of the epoch before.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/pipeline/pipeline.h"

namespace tutti::coordinator {
namespace {

// The number of times that a worker may say that it fetches other bytes for one shard: headers, the
// rest, none while it loads. More than twice as often as any build does.
constexpr int kShardFetchesMax = 8;

// The text of the K/V that a shard holds, whoever its neighbours are.
std::string KvContents(const v1::AssignShard& assigned) {
  v1::AssignShard shard = assigned;
  shard.clear_next_worker_ids();
  shard.clear_previous_worker_id();
  shard.clear_rank_worker_ids();
  shard.clear_kv_epoch();
  shard.clear_kept_blocks();
  shard.clear_peers();
  return shard.SerializeAsString();
}

// Tells where the worker says that it listens.
void Introduce(const Worker& worker, v1::AssignShard* assign) {
  const std::string& address = worker.hello.advertised_address();
  if (address.empty()) return;
  v1::PeerAddress* const peer = assign->add_peers();
  peer->set_worker_id(worker.id());
  peer->set_address(address);
}

}  // namespace

v1::AssignShard Pipeline::AssignmentOf(const Shard& shard, const Formation& formation) const {
  const Stage& stage = stages_[shard.stage];
  v1::AssignShard assignment;
  v1::AssignShard* const assign = &assignment;
  assign->set_pipeline(id_.value());
  assign->set_stage(shard.stage);
  assign->set_num_stages(num_stages());
  assign->set_rank(shard.rank);
  assign->set_num_ranks(static_cast<int32_t>(stage.ranks()));
  assign->set_first_layer(stage.placement.first_layer);
  assign->set_num_layers(stage.placement.num_layers);
  assign->set_has_embedding(stage.placement.has_embedding);
  assign->set_has_head(stage.placement.has_head);
  assign->set_block_size(formation.placement.block_size);
  assign->set_num_blocks(formation.placement.num_blocks);
  assign->set_max_batch_tokens(options_->max_batch_tokens);
  assign->set_max_sequences(options_->max_sequences);
  assign->set_max_model_len(MaxModelLen(*options_));
  assign->set_whole_experts(options_->model.whole_experts);
  if (const auto& quantise = options_->model.quantise; quantise.has_value()) {
    assign->set_quantise(quantise->scheme);
    assign->set_quantise_head(quantise->head);
  }
  assign->set_draft(options_->draft != nullptr && shard.stage + 1 == num_stages() &&
                    shard.rank == 0);
  assign->set_numerics_class(membership_->ClassOf(*membership_->Find(shard.link)));
  const auto name = [&](const Stage& of, size_t rank) {
    const Worker& worker = *formation.workers[of.first_shard + rank];
    Introduce(worker, assign);
    return worker.id();
  };
  for (size_t rank = 0; stage.ranks() > 1 && rank < stage.ranks(); ++rank) {
    assign->add_rank_worker_ids(name(stage, rank));
  }
  const auto own = static_cast<size_t>(shard.rank);
  if (shard.stage > 0) {
    const Stage& before = stages_[shard.stage - 1];
    assign->set_previous_worker_id(name(before, own % before.ranks()));
  }
  if (shard.stage + 1 < num_stages()) {
    const Stage& next = stages_[shard.stage + 1];
    for (size_t rank = own; rank < next.ranks(); rank += stage.ranks()) {
      assign->add_next_worker_ids(name(next, rank));
    }
  }
  return assignment;
}

// The epoch whose K/V the worker may still hold; 0: none. It has the last word (TakeKv).
uint64_t Pipeline::KvEpochOf(const Shard& shard) const {
  const auto last = std::find_if(last_shards_.begin(), last_shards_.end(),
                                 [&](const LastShard& one) { return one.link == shard.link; });
  if (last == last_shards_.end()) return 0;
  return KvContents(last->assigned) == KvContents(shard.assigned) ? last->kv_epoch : 0;
}

// The rows of as many blocks as there is memory for, where another stage is fed.
int32_t Pipeline::KeptBlocks(const Shard& shard) const {
  if (!options_->partial_recompute || shard.assigned.next_worker_ids().empty()) return 0;
  const model::ModelConfig& model = options_->model;
  const int64_t row_bytes = model.hidden_size * DTypeBytes(model.residual_dtype());
  const placement::RankPlacement& placed = shard.placement;
  int64_t bytes = options_->kept_rows_bytes;
  // A GPU's memory is no measure for the host's.
  if (bytes < 0) {
    bytes = placed.kind == DeviceKind::kCpu ? placed.budget_bytes - placed.peak_bytes() : 0;
  }
  return static_cast<int32_t>(std::clamp<int64_t>(bytes / (row_bytes * shard.assigned.block_size()),
                                                  0, shard.assigned.num_blocks()));
}

// Whether more has come than ever in this epoch; counts that go up and down are none.
bool Pipeline::Shard::GetsOn(const v1::ShardProgress& now) {
  // Headers are fetched before the rest, which counts from zero again.
  bool on = now.fetch_bytes() != progress.fetch_bytes() && fetches < kShardFetchesMax;
  if (on) {
    ++fetches;
    most_fetched = 0;
  }
  on |= now.fetched_bytes() > most_fetched || now.loaded_bytes() > most_loaded;
  most_fetched = std::max(most_fetched, now.fetched_bytes());
  most_loaded = std::max(most_loaded, now.loaded_bytes());
  progress = now;
  return on;
}

absl::Status Pipeline::OnShardProgress(const Worker& worker, const v1::ShardProgress& progress,
                                       Instant now) {
  if (progress.loaded_bytes() < 0 || progress.loaded_bytes() > progress.total_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("shard_progress says ", progress.loaded_bytes(),
                                                   " of ", progress.total_bytes(), " bytes"));
  }
  TUTTI_RETURN_IF_ERROR(CheckFetch(progress));
  Shard& shard = shards_[IndexOf(worker)];
  if (shard.GetsOn(progress)) shard.moved_at = now;
  return absl::OkStatus();
}

absl::Status Pipeline::TakeKv(Shard* shard, const v1::ShardReady& ready) const {
  const auto most = static_cast<size_t>((shard->assigned.num_blocks() + 7) / 8);
  if (ready.kept_rows().size() > most) {
    return absl::FailedPreconditionError(absl::StrCat("shard_ready.kept_rows has ",
                                                      ready.kept_rows().size(), " bytes for ",
                                                      shard->assigned.num_blocks(), " blocks"));
  }
  const uint64_t wanted = shard->assigned.kv_epoch();
  const bool goes_on = wanted != 0 && ready.kv_epoch() == wanted;
  shard->kv_epoch = goes_on ? wanted : epoch_.value();
  shard->kept_rows = goes_on ? ready.kept_rows() : "";
  return absl::OkStatus();
}

// A stage without one of its ranks is lost. Its rows are kept where all ranks have kept them that
// feed the next.
KvSurvival Pipeline::Survival() const {
  KvSurvival survival{
      .num_stages = num_stages(), .lost = 0, .kept_rows = std::vector<std::string>(stages_.size())};
  if (num_stages() > kStagesInSet) return survival;
  for (const Shard& shard : shards_) {
    if (shard.kv_epoch == epoch_.value()) survival.lost |= StageSet{1} << shard.stage;
    if (shard.assigned.next_worker_ids().empty()) continue;
    std::string& kept = survival.kept_rows[shard.stage];
    if (shard.rank == 0) {
      kept = shard.kept_rows;
      continue;
    }
    kept.resize(std::min(kept.size(), shard.kept_rows.size()));
    for (size_t i = 0; i < kept.size(); ++i) {
      kept[i] = static_cast<char>(kept[i] & shard.kept_rows[i]);
    }
  }
  return survival;
}

}  // namespace tutti::coordinator
