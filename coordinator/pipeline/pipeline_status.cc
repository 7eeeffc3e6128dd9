// The status of a pipeline, for people.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/fleet/gpu_reading.h"
#include "coordinator/pipeline/pipeline.h"

namespace tutti::coordinator {
namespace {

const char* StateName(Pipeline::State state) {
  switch (state) {
    case Pipeline::State::kWaiting:
      return "waiting for workers";
    case Pipeline::State::kLoading:
      return "loading";
    case Pipeline::State::kLinking:
      return "linking";
    case Pipeline::State::kServing:
      return "serving";
  }
  return "";
}

}  // namespace

std::string Pipeline::WhyNot() const {
  const std::string before = last_end_.empty() ? "" : absl::StrCat("; before: ", last_end_);
  if (state_ == State::kServing) return "";
  if (state_ == State::kWaiting) {
    return absl::StrCat(cannot_form_.empty() ? "waiting for workers" : cannot_form_, before);
  }
  if (state_ == State::kLinking) {
    const PipelineLinks::Link* link = links_.FindFailed();
    if (link != nullptr) return absl::StrCat("linking: ", Failed(*link).why);
    link = links_.FindMissing();
    return absl::StrCat(
        "linking: ",
        link != nullptr ? links_.Describe(*link) + " is not up yet" : "the first row is on its way",
        before);
  }
  const std::vector<std::string> loading = WorkerIds(/*loading_only=*/true);
  if (loading.empty()) return absl::StrCat(check_->WhyNot(), before);
  return absl::StrCat("loading on ", absl::StrJoin(loading, ", "), before);
}

std::string Pipeline::NumericsOfLayers() const {
  std::string layers;
  std::string last;
  bool mixed = false;
  for (const Shard& shard : shards_) {
    const std::string& numerics = membership_->ClassOf(*membership_->Find(shard.link));
    mixed |= !last.empty() && numerics != last;
    last = numerics;
    absl::StrAppend(&layers, layers.empty() ? "" : ",", stages_[shard.stage].placement.first_layer,
                    "/", shard.rank, ":", numerics);
  }
  return mixed ? layers : last;
}

bool Pipeline::IsExact() const {
  return std::none_of(shards_.begin(), shards_.end(), [&](const Shard& shard) {
    return membership_->IsInexact(*membership_->Find(shard.link));
  });
}

std::vector<Pipeline::Replaceable> Pipeline::Replaceables() const {
  std::vector<Replaceable> all;
  for (const Shard& shard : shards_) {
    all.push_back({.worker = membership_->Find(shard.link),
                   .placement = &stages_[shard.stage].placement,
                   .rank = &shard.placement,
                   .shard = &shard.assigned});
  }
  return all;
}

std::vector<std::string> Pipeline::WorkerIds(bool loading_only) const {
  std::vector<std::string> ids;
  for (const Shard& shard : shards_) {
    if (!loading_only || !shard.ready) ids.push_back(shard.placement.device);
  }
  return ids;
}

void Pipeline::FillStatus(Instant now, v1::PipelineStatus* status) const {
  status->set_pipeline(id_.value());
  status->set_epoch(epoch_.value());
  status->set_state(StateName(state_));
  status->set_block_size(options_->block_size);
  status->set_blocks_total(num_blocks_);
  status->set_kv_tokens_total(int64_t{num_blocks_} * options_->block_size);
  status->set_steps(ledger_.finished_steps());
  for (size_t i = 0; i < shards_.size(); ++i) FillShard(i, now, status->add_stages());
  const PaceWatch& pace = ledger_.pace();
  if (const std::optional<size_t> slow = pace.straggler()) {
    status->set_straggler(
        absl::StrFormat("%s takes %.1f times as long for a step as before, beside the others",
                        Describe(*membership_->Find(shards_[*slow].link)), pace.slowdown(*slow)));
  }
  status->set_busy_seconds_total(ledger_.BusySeconds(now));
  status->set_draft_seconds(ledger_.draft_seconds());
  links_.FillStatus(status);
  if (stages_.empty()) return;
  status->set_numerics_class(membership_->numerics_class());
  status->set_exact(IsExact());
}

std::optional<Pipeline::Stuck> Pipeline::FindSlow() const {
  if (state_ != State::kServing) return std::nullopt;
  const std::optional<size_t> slow = ledger_.pace().left_pace();
  if (!slow.has_value()) return std::nullopt;
  return Stuck{
      shards_[*slow].link,
      absl::StrFormat("takes %.1f times as long for a step as predicted, beside the "
                      "others, for %d s",
                      ledger_.pace().strain(*slow), static_cast<int>(Seconds(kSlowPatience)))};
}

void Pipeline::FillHolding(int32_t tokens, v1::PrefixHolding* holding) const {
  const int32_t blocks = tokens / options_->block_size;
  holding->set_pipeline(id_.value());
  holding->set_tokens(tokens);
  holding->set_blocks(blocks);
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    const placement::StagePlacement& placement = stages_[stage].placement;
    for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
      v1::ShardHolding* const shard = holding->add_shards();
      shard->set_stage(static_cast<int32_t>(stage));
      shard->set_rank(static_cast<int32_t>(rank));
      shard->set_worker_id(placement.ranks[rank].device);
      shard->set_first_layer(placement.first_layer);
      shard->set_num_layers(placement.num_layers);
      shard->set_kv_bytes(placement.ranks[rank].kv_bytes / num_blocks_ * blocks);
    }
  }
}

void Pipeline::FillShard(size_t number, Instant now, v1::StageStatus* status) const {
  const Shard& shard = shards_[number];
  const Stage& stage = stages_[shard.stage];
  status->set_stage(shard.stage);
  status->set_rank(shard.rank);
  status->set_num_ranks(static_cast<int32_t>(stage.ranks()));
  status->set_first_layer(stage.placement.first_layer);
  status->set_num_layers(stage.placement.num_layers);
  status->set_has_embedding(stage.placement.has_embedding);
  status->set_has_head(stage.placement.has_head);
  v1::MemoryBytes* const predicted = status->mutable_predicted();
  predicted->set_weights(shard.placement.weight_bytes);
  predicted->set_kv(shard.placement.kv_bytes);
  predicted->set_activations(shard.placement.activation_bytes);
  predicted->set_budget(shard.placement.budget_bytes);
  predicted->set_kept_rows(PlannedKeptRowBytes(*options_, shard.assigned));
  v1::MemoryBytes* const actual = status->mutable_actual();
  actual->set_weights(shard.actual.weight_bytes());
  actual->set_kv(shard.actual.kv_bytes());
  actual->set_activations(shard.actual.activation_bytes());
  actual->set_kept_rows(shard.actual.kept_row_bytes());
  actual->set_budget(shard.placement.budget_bytes);
  if (const Worker* const worker = membership_->Find(shard.link)) {
    FillWorkerStatus(*worker, now, status->mutable_worker());
    actual->set_resident(worker->resident_bytes);
    if (worker->gpu.has_value()) {
      FillCudaBytes(*actual, status->mutable_worker()->mutable_gpu());
    }
  }
  status->set_load_seconds(shard.actual.load_seconds());
  const double total = static_cast<double>(shard.progress.total_bytes());
  status->set_loaded_share(shard.ready ? 1
                           : total > 0 ? static_cast<double>(shard.progress.loaded_bytes()) / total
                                       : 0);
  if (!shard.ready) status->set_fetch(FetchText(shard.progress));
  ledger_.FillStatus(number, now, status);
}

}  // namespace tutti::coordinator
