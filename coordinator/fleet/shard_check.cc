#include "coordinator/fleet/shard_check.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

int64_t PlannedKeptRowBytes(const EngineOptions& options, const v1::AssignShard& assigned) {
  return int64_t{assigned.kept_blocks()} * assigned.block_size() * options.model.hidden_size *
         DTypeBytes(options.model.residual_dtype());
}

void ShardCheck::HandleDigests(const CheckpointDigested& event) {
  digests_ = event.digests;
  why_not_ = event.why_not;
}

absl::Status ShardCheck::Compare(const placement::StagePlacement& stage, int32_t rank,
                                 const v1::ShardReady& ready) const {
  if (!options_->compare_checkpoint) return absl::OkStatus();
  std::vector<model::ChunkRun> runs;
  runs.reserve(static_cast<size_t>(ready.read_size()));
  for (const v1::ChunkDigests& read : ready.read()) {
    runs.push_back(
        {.file = read.file(), .first_chunk = read.first_chunk(), .digests = read.digests()});
  }
  return digests_->Compare(options_->model,
                           {.first_layer = stage.first_layer,
                            .num_layers = stage.num_layers,
                            .has_embedding = stage.has_embedding,
                            .has_head = stage.has_head},
                           static_cast<int>(stage.ranks.size()), rank, runs);
}

absl::Status ShardCheck::CompareMemory(const Worker& worker,
                                       const placement::RankPlacement& planned,
                                       const v1::AssignShard& assigned,
                                       const v1::ShardReady& ready) const {
  // Plans are of backends that pack; that one, for tests, has weights as they are.
  if (!options_->compare_memory || worker.hello.device() == "reference") return absl::OkStatus();
  const struct {
    const char* what;
    int64_t planned, held;
    bool at_most = false;
  } kinds[] = {
      {"weights", planned.weight_bytes, ready.weight_bytes()},
      {"the KV cache", planned.kv_bytes, ready.kv_bytes()},
      // On a GPU two models share it, and it is that of the layers that the stage has.
      {"the work space of a step", planned.activation_bytes, ready.activation_bytes(), true},
      // Where the host has no memory for them, none are kept.
      {"rows for the stage after", PlannedKeptRowBytes(*options_, assigned), ready.kept_row_bytes(),
       true},
  };
  for (const auto& kind : kinds) {
    if (kind.held == kind.planned) continue;
    if (kind.at_most && kind.held >= 0 && kind.held < kind.planned) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "it holds ", kind.held, " bytes of ", kind.what, " where ", kind.planned,
        " were planned; start worker and coordinator from one build, with the same checkpoint and "
        "flags; where they are, one of both counts wrongly, which is a bug to report"));
  }
  return absl::OkStatus();
}

void ShardCheck::Refuse(const Worker& worker, const absl::Status& why, Instant now,
                        std::vector<Action>* actions) {
  Bar(worker.id(), why, now);
  // When it comes back it reads the files again, which somebody may have mended.
  v1::Frame frame;
  frame.set_epoch(worker.shard_epoch.value());
  frame.mutable_release();
  actions->push_back(SendToWorker{worker.link, std::move(frame)});
  actions->push_back(Notice{absl::StrCat("worker ", worker.id(), " is refused: ", why.message()),
                            /*warning=*/true});
}

void ShardCheck::Bar(const std::string& worker_id, const absl::Status& why, Instant now) {
  if (barred_.size() >= kBarredWorkersMax && !barred_.contains(worker_id)) {
    std::erase_if(barred_, [&](const auto& entry) { return entry.second.until <= now; });
    if (barred_.size() >= kBarredWorkersMax) return;
  }
  Barred& barred = barred_[worker_id];
  barred.until = now + BarredFor(++barred.times);
  barred.why = std::string(why.message());
}

absl::Status ShardCheck::MayJoin(const std::string& worker_id, Instant now) const {
  const auto found = barred_.find(worker_id);
  if (found == barred_.end() || found->second.until <= now) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(found->second.why, "; it may join again in ",
                   static_cast<int64_t>(Seconds(found->second.until - now)) + 1, " s"));
}

}  // namespace tutti::coordinator
