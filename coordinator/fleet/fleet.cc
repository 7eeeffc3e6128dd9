#include "coordinator/fleet/fleet.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/fleet/gpu_reading.h"
#include "coordinator/limits.h"
#include "model/partition.h"
#include "placement/place_pipeline.h"

namespace tutti::coordinator {
namespace {

// The memory of the smallest part of the model: with as many ranks as there may be.
std::array<int64_t, kDeviceKinds> SmallestMemory(const EngineOptions& options) {
  placement::PlacementOptions placement = PlacementOptionsOf(options);
  if (placement.num_ranks == 0) {
    placement.num_ranks = model::kLeaves;
    while (!model::CheckRanks(options.model, placement.num_ranks).ok()) placement.num_ranks /= 2;
  }
  return {placement::SmallestStageBytes(options.model, placement, DeviceKind::kCpu),
          placement::SmallestStageBytes(options.model, placement, DeviceKind::kCuda)};
}

MembershipOptions MembershipOptionsOf(const EngineOptions& options) {
  return {.cluster_id = options.cluster_id,
          .model_fingerprint = options.model_fingerprint,
          .draft_fingerprint = options.draft_fingerprint,
          .numerics_class = options.numerics_class,
          .mix_numerics = options.mix_numerics,
          .memory_bytes_min = SmallestMemory(options)};
}

absl::Status CheckBeat(const v1::Beat& beat) {
  if (beat.unmoved_us() < 0 || beat.allowed_us() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its beat says that its executor has not moved for ", beat.unmoved_us(),
                     " us of ", beat.allowed_us(), " us allowed: no time is below 0"));
  }
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (beat.activity().size() > kActivityBytesMax ||
      !std::all_of(beat.activity().begin(), beat.activity().end(), printable)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its beat's activity has ", beat.activity().size(),
        " bytes; a line of printable ASCII of at most ", kActivityBytesMax, " is expected"));
  }
  return CheckGpuReading(beat.gpu());
}

// Judged by the worker's own account, which knows how fast it is and how much of its processors it
// gets, and by ours, within which it may say what it likes.
absl::Status CheckExecutor(const Worker& worker, const v1::Beat& beat, Instant now) {
  const Duration most = kExecutorPatience;
  const int64_t most_us = std::chrono::duration_cast<std::chrono::microseconds>(most).count();
  const int64_t allowed_us = std::min(beat.allowed_us(), most_us);
  const auto seen_us =
      std::chrono::duration_cast<std::chrono::microseconds>(now - worker.at_work_since).count();
  const int64_t unmoved_us = seen_us > most_us ? seen_us : beat.unmoved_us();
  if (unmoved_us <= allowed_us) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "its executor is stuck ", beat.activity().empty() ? "at its work" : beat.activity(), ": for ",
      unmoved_us / 1000, " ms without progress, of ", allowed_us / 1000, " ms that it may take"));
}

}  // namespace

Fleet::Fleet(const EngineOptions* options)
    : options_(options), membership_(MembershipOptionsOf(*options)), layout_(options) {}

// ---- membership

std::optional<LostWorker> Fleet::FindExpiredNamesake(std::string_view worker_id, Instant now) {
  const Worker* const namesake = membership_.FindId(worker_id);
  if (namesake == nullptr || LeaseEnd(*namesake) > now) return std::nullopt;
  return LostWorker{namesake->link, absl::UnavailableError("its lease expired, and it came back")};
}

void Fleet::HandleJoin(const WorkerJoined& event, uint32_t incarnation, Instant now,
                       std::vector<Action>* actions) {
  const absl::Status status = membership_.Check(event.hello);
  if (!status.ok()) {
    actions->push_back(CloseWorker{event.link, status});
    return;
  }
  const std::string& id = event.hello.worker_id();
  membership_.Join(event.link, event.hello, now)->drained = drained_.contains(id);
  if (event.hello.build() != options_->build) {
    actions->push_back(Notice{absl::StrCat(
        "worker ", id, " is of build \"", absl::CHexEscape(event.hello.build()), "\", this is \"",
        options_->build, "\"; they speak the same protocol and compute the same bits")});
  }
  numbers_.Join(id);
  faults_.ForgetLinksOf(id);
  if (!faults_.ComesAndGoes(id, now)) members_changed_at_ = now;
  may_form_ = true;
  leases_until_ = std::min(leases_until_, now + options_->lease);
  v1::Frame frame;
  v1::Welcome* const welcome = frame.mutable_welcome();
  welcome->set_beat_interval_ms(static_cast<uint32_t>(Milliseconds(options_->beat_interval)));
  welcome->set_lease_ms(static_cast<uint32_t>(Milliseconds(options_->lease)));
  welcome->set_incarnation(incarnation);
  actions->push_back(SendToWorker{event.link, std::move(frame)});
}

absl::Status Fleet::HandleBeat(Worker* worker, const v1::Beat& beat, Instant now) {
  TUTTI_RETURN_IF_ERROR(CheckBeat(beat));
  if (beat.progress() < worker->progress) {
    return absl::FailedPreconditionError(
        absl::StrCat("its progress went back from ", worker->progress, " to ", beat.progress()));
  }
  const bool moved = beat.progress() > worker->progress;
  if (moved) worker->last_progress = now;
  worker->progress = beat.progress();
  worker->resident_bytes = beat.resident_bytes();
  worker->waiting_for = beat.waiting_for();
  worker->gpu.reset();
  if (beat.has_gpu()) worker->gpu = KeptGpuReading(beat.gpu());
  worker->gpu_read_at = now;
  const bool at_work = beat.allowed_us() > 0;
  if (moved || !worker->at_work) worker->at_work_since = now;
  worker->at_work = at_work;
  return at_work ? CheckExecutor(*worker, beat, now) : absl::OkStatus();
}

void Fleet::Forgive(Duration stall, Instant now) {
  for (Worker* worker : membership_.All()) {
    for (Instant* time : {&worker->last_heard, &worker->last_progress, &worker->at_work_since}) {
      *time = std::min(now, *time + stall);
    }
  }
  members_changed_at_ = std::min(now, members_changed_at_ + stall);
}

void Fleet::Remove(LinkKey link, Instant now) {
  const std::string id = membership_.Find(link)->id();
  numbers_.Leave(id);
  membership_.Remove(link);
  faults_.OnLeft(id, now);
  if (!faults_.ComesAndGoes(id, now)) members_changed_at_ = now;
  may_form_ = class_due_ = true;
}

Instant Fleet::LeaseEnd(const Worker& worker) const { return worker.last_heard + options_->lease; }

std::vector<LostWorker> Fleet::FindExpired(Instant now) {
  std::vector<LostWorker> expired;
  for (const Worker* worker : membership_.All()) {
    if (LeaseEnd(*worker) > now) continue;
    const auto silent = static_cast<int64_t>(Milliseconds(now - worker->last_heard));
    expired.push_back(
        {worker->link, absl::DeadlineExceededError(absl::StrCat(
                           "its lease expired, nothing was heard of it for ", silent, " ms"))});
  }
  return expired;
}

void Fleet::UpdateLeasesUntil() {
  leases_until_ = kInstantNever;
  for (const Worker* worker : membership_.All()) {
    leases_until_ = std::min(leases_until_, LeaseEnd(*worker));
  }
}

void Fleet::SetDrained(Worker* worker, bool drained) {
  worker->drained = drained;
  worker->standby.reset();
  may_form_ = true;
  if (!drained) {
    drained_.erase(worker->id());
  } else if (drained_.size() < kDeviceNumbersMax) {
    drained_.insert(worker->id());
  }
}

void Fleet::ReleaseShard(Worker* worker, std::vector<Action>* actions) {
  if (!std::exchange(worker->holds_shard, false)) return;
  v1::Frame frame;
  frame.set_epoch(worker->shard_epoch.value());
  frame.mutable_release();
  actions->push_back(SendToWorker{worker->link, std::move(frame)});
}

void Fleet::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  membership_.FillStatus(status);
  if (layout_.open() && layout_.shape().has_value()) layout_.FillStatus(status->mutable_layout());
  for (const Worker* worker : membership_.Idle()) {
    FillWorkerStatus(*worker, now, status->add_idle_workers());
  }
}

}  // namespace tutti::coordinator
