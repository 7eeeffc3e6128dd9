#include "worker/stage_worker.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/epochs.h"
#include "base/fail_point.h"
#include "transport/frame_rules.h"
#include "worker/limits.h"
#include "worker/shard_limits.h"

namespace tutti::worker {
namespace {

int64_t Microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

StageWorker::StageWorker(StageRunnerFactory factory, StageOutbox* outbox, const Clock* clock,
                         StageRowChannel* row_channel, GrammarPool::Runs masks)
    : factory_(std::move(factory)),
      outbox_(outbox),
      clock_(clock),
      row_channel_(row_channel),
      grammars_(masks) {}

StageRunner::LinkMemory StageWorker::link_memory() const {
  return runner_ == nullptr ? StageRunner::LinkMemory() : runner_->link_memory();
}

std::string StageWorker::PreviousName() const {
  return absl::StrCat("from ", shard_.previous_worker_id(), ", stage ", shard_.stage() - 1);
}

void StageWorker::OnCoordinatorFrame(v1::Frame frame) {
  const Epoch epoch(frame.epoch());
  // The one gate: everything behind it is of this epoch, or of a newer one and opens it.
  const bool opens = frame.has_assign_shard();
  const bool stale = epoch <= newest_epoch_ && !TUTTI_FAIL_POINT("worker.stale_incarnation");
  if (opens ? stale : (epoch_ == Epoch() || epoch != epoch_)) {
    ++stale_frames_;
    return;
  }
  switch (frame.body_case()) {
    case v1::Frame::kAssignShard:
      return Assign(epoch, std::move(*frame.mutable_assign_shard()));
    case v1::Frame::kRelease:
      return Release();
    case v1::Frame::kVocabulary: {
      if (!status_.ok()) return;
      const absl::Status status =
          grammars_.SetVocabulary(std::move(*frame.mutable_vocabulary()), runner_->vocab_size());
      if (!status.ok()) Fail(status);
      return;
    }
    case v1::Frame::kStepPlan: {
      if (!status_.ok()) return;
      const absl::Status status =
          sequencer_->OnPlan(std::move(*frame.mutable_step_plan()), clock_->Now());
      if (!status.ok()) Fail(status);
      return;
    }
    default:
      return Fail(absl::InvalidArgumentError(
          absl::StrCat("unexpected frame ", transport::BodyName(frame),
                       " from the coordinator while this worker serves epoch ", EpochName(epoch))));
  }
}

void StageWorker::OnActivationFrame(v1::Frame frame, transport::Payload payload) {
  const Epoch epoch(frame.epoch());
  if (epoch > newest_epoch_) {
    if (!early_.Keep(std::move(frame), std::move(payload))) ++stale_frames_;
    return;
  }
  if (epoch_ == Epoch() || epoch != epoch_) {
    ++stale_frames_;
    return;
  }
  HandleActivation(frame, payload);
}

void StageWorker::HandleActivation(const v1::Frame& frame, const transport::Payload& payload) {
  if (!status_.ok()) return;
  if (!frame.has_activation()) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("unexpected frame ", transport::BodyName(frame), " ", PreviousName(),
                     ": an activation link carries activation frames only")));
  }
  Count(transport::EncodedFrameBytes(frame, payload.size()), &activation_in_);
  const v1::Activation& chunk = frame.activation();
  absl::Status status = sequencer_->OnActivation(chunk, payload, clock_->Now());
  if (status.ok() && chunk.on_device()) {
    const int64_t bytes = chunk.rows() * runner_->activation_row_bytes();
    activation_in_.set_bytes(activation_in_.bytes() + bytes);
    status = row_channel_ == nullptr
                 ? absl::FailedPreconditionError("this worker has no device link")
                 : row_channel_->Expect(bytes);
  }
  if (absl::IsAborted(status)) return Stop(status);
  if (!status.ok()) Fail(Annotate(status, PreviousName()));
}

// Hands on the frames that came early for the epoch that has just begun; those of epochs still to
// come are kept again, the rest are stale.
void StageWorker::ReplayEarly() {
  std::deque<EarlyActivations::Kept> early = early_.PopAll();
  if (absl::Status complete = early_.CheckComplete(epoch_); !complete.ok()) Fail(complete);
  for (auto& [frame, payload] : early) OnActivationFrame(std::move(frame), std::move(payload));
}

void StageWorker::Assign(Epoch epoch, v1::AssignShard shard) {
  ForgetEpoch();
  newest_epoch_ = epoch;
  epoch_ = epoch;
  shard_ = std::move(shard);
  const Instant begin = clock_->Now();
  absl::Status status = ValidateShard(shard_);
  if (status.ok()) status = Load(shard_);
  if (absl::IsAborted(status)) return Stop(status);
  if (!status.ok()) {
    const int64_t last = shard_.first_layer() + int64_t{shard_.num_layers()} - 1;
    status = Annotate(status, absl::StrCat("loading layers ", shard_.first_layer(), " to ", last));
    return Fail(status, absl::IsInvalidArgument(status) || absl::IsUnimplemented(status));
  }
  const bool goes_on = GoOnWithKv();
  StartServing();
  ShardMemory memory = runner_->memory();
  if (drafter_.has_value()) memory += runner_->draft().runner->memory();
  v1::Frame frame = NewFrame();
  v1::ShardReady* ready = frame.mutable_shard_ready();
  ready->set_weight_bytes(memory.weight_bytes);
  ready->set_kv_bytes(memory.kv_bytes);
  ready->set_activation_bytes(memory.activation_bytes);
  ready->set_kept_row_bytes(kept_.bytes());
  ready->set_load_seconds(Seconds(clock_->Now() - begin));
  if (goes_on) {
    ready->set_kv_epoch(kv_epoch_.value());
    ready->set_kept_rows(kept_.CompleteBlocks());
  }
  for (const model::ChunkRun& run : runner_->read()) {
    v1::ChunkDigests* const digests = ready->add_read();
    digests->set_file(run.file);
    digests->set_first_chunk(run.first_chunk);
    digests->set_digests(run.digests);
  }
  outbox_->ToCoordinator(std::move(frame));
  ReplayEarly();
}

// Whether the K/V that the coordinator would go on with is here.
bool StageWorker::GoOnWithKv() {
  const int64_t row_bytes = runner_->activation_row_bytes();
  const bool goes_on = shard_.kv_epoch() != 0 && shard_.kv_epoch() == kv_epoch_.value();
  if (!goes_on) {
    kv_epoch_ = epoch_;
    kept_.Clear();
  }
  if (!kept_.Matches(shard_.kept_blocks(), shard_.block_size(), row_bytes)) {
    kept_ = KeptRows();  // the old memory goes first
    kept_ = KeptRows(shard_.kept_blocks(), shard_.block_size(), row_bytes);
  }
  return goes_on;
}

absl::Status StageWorker::Load(const v1::AssignShard& shard) {
  if (runner_ != nullptr && SameContents(*loaded_, shard)) return absl::OkStatus();
  // The old one goes first: there may be room for one only.
  ForgetShard();
  int64_t told_share = -1;
  const ShardProgressCallback progress = [&](int64_t loaded, int64_t total) {
    ++progress_count_;
    const int64_t share = total > 0 ? loaded * 100 / total : 100;
    if (share == told_share) return;
    told_share = share;
    v1::Frame frame = NewFrame();
    frame.mutable_shard_progress()->set_loaded_bytes(loaded);
    frame.mutable_shard_progress()->set_total_bytes(total);
    outbox_->ToCoordinator(std::move(frame));
  };
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<StageRunner> runner, factory_(shard, progress));
  const int64_t row_bytes = runner->activation_row_bytes();
  CHECK(row_bytes > 0 && runner->vocab_size() > 0);
  if (row_bytes > kActivationRowBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the model's activation rows have ", row_bytes,
                                                   " bytes, at most ", kActivationRowBytesMax));
  }
  if (shard.draft() && runner->draft().runner == nullptr) return NoDraftModel();
  runner_ = std::move(runner);
  loaded_ = shard;
  if (const StageRunner::DraftModel draft = runner_->draft(); draft.runner != nullptr) {
    drafter_.emplace(draft, Drafter::Limits{.vocab_size = runner_->vocab_size(),
                                            .block_size = shard.block_size(),
                                            .num_blocks = shard.num_blocks(),
                                            .max_batch_tokens = shard.max_batch_tokens(),
                                            .max_model_len = shard.max_model_len()});
  }
  return absl::OkStatus();
}

void StageWorker::StartServing() {
  const int32_t ahead = StepsAheadMax(shard_.num_stages());
  const int64_t row_bytes = runner_->activation_row_bytes();
  table_.emplace(SequenceLimits{.vocab_size = runner_->vocab_size(),
                                .block_size = shard_.block_size(),
                                .num_blocks = shard_.num_blocks(),
                                .max_batch_tokens = shard_.max_batch_tokens(),
                                .max_step_sequences = shard_.max_sequences(),
                                .max_known_sequences = static_cast<int32_t>(std::min<int64_t>(
                                    int64_t{shard_.max_sequences()} * ahead, INT32_MAX)),
                                .max_model_len = shard_.max_model_len(),
                                .takes_drafts = !tells() || drafter_.has_value()},
                 is_last() ? &grammars_ : nullptr);
  sequencer_.emplace(StepSequencer::Options{.takes_activations = !is_first(),
                                            .stage = shard_.stage(),
                                            .num_stages = shard_.num_stages(),
                                            .activation_row_bytes = row_bytes,
                                            .max_batch_tokens = shard_.max_batch_tokens(),
                                            .max_steps_ahead = ahead});
  output_pool_.emplace(is_last() ? 0 : row_bytes * shard_.max_batch_tokens());
}

void StageWorker::ForgetEpoch() {
  if (row_channel_ != nullptr) row_channel_->End();
  epoch_ = Epoch();
  shard_.Clear();
  status_ = absl::OkStatus();
  if (drafter_.has_value()) drafter_->ForgetAll();
  table_.reset();
  sequencer_.reset();
  output_pool_.reset();
  activation_in_.Clear();
  activation_out_.Clear();
  told_waiting_seconds_ = 0;
}

void StageWorker::ForgetShard() {
  drafter_.reset();
  runner_.reset();
  loaded_.reset();
  kv_epoch_ = Epoch();
}

void StageWorker::OnCoordinatorLost() {
  ForgetEpoch();
  newest_epoch_ = EpochBefore(IncarnationOf(newest_epoch_));
  kv_epoch_ = Epoch();
  early_.Clear();
}

bool StageWorker::RunOneStep(const ProgressCallback& progress, const BeginCallback& begin) {
  if (!sequencer_.has_value() || !status_.ok()) return false;
  std::optional<ReadyStep> ready;
  absl::Status status = sequencer_->Next(&ready);
  if (status.ok() && !ready.has_value()) return false;
  if (status.ok()) {
    const uint64_t step = ready->plan.step();
    status = Annotate(RunStep(std::move(*ready), progress, begin), absl::StrCat("step ", step));
  }
  if (absl::IsAborted(status)) {
    Stop(status);
  } else if (!status.ok()) {
    Fail(status);
  }
  return true;
}

absl::Status StageWorker::RunStep(ReadyStep ready, const ProgressCallback& progress,
                                  const BeginCallback& on_begin) {
  TUTTI_RETURN_IF_ERROR(Apply(ready.plan));
  BuildBatch(ready.plan, &*table_, &batch_);
  // Masks are made while the step is computed.
  for (const SampleRow& row : batch_.sample_rows) {
    if (row.sequence->grammar == nullptr || row.goes_on != nullptr) continue;
    row.sequence->grammar->Ask(row.sequence->output());
  }
  for ([[maybe_unused]] const int32_t position : batch_.positions) {
    if (TUTTI_FAIL_POINT_AT("worker.die_at_position", position)) std::_Exit(1);
  }
  const StagePart part = PartOf(ready.plan, shard_.stage(), shard_.num_stages());
  const Instant waiting = clock_->Now();
  TUTTI_ASSIGN_OR_RETURN(const Rows rows, PrepareRows(ready, part));
  const Instant begin = clock_->Now();
  const Duration masks_before = runner_->mask_wait();
  TUTTI_RETURN_IF_ERROR(Compute(part, rows, progress, on_begin));
  // What the device has still to do of the step is no time of the draft model.
  if (drafter_.has_value() && Drafter::GoesOn(ready.plan)) runner_->Await();
  if (rows.in_on_device) row_channel_->Release();
  CollectFaults(std::move(ready.faults));
  ++progress_count_;
  // A worker is not slow for what a grammar takes.
  const Duration computing = clock_->Now() - begin;
  const Duration masks = std::min(computing, runner_->mask_wait() - masks_before);
  TUTTI_RETURN_IF_ERROR(PassOn(part, rows));
  TUTTI_ASSIGN_OR_RETURN(const Duration drafting, Draft(ready.plan, progress, on_begin));
  SendDone(ready.plan.step(), {.compute = computing - masks,
                               .wait = ready.wait + (begin - waiting) + masks,
                               .draft = drafting});
  return ready.plan.probe() ? ForgetProbe(ready.plan) : absl::OkStatus();
}

// Its sequences end with it, and what passed over the links does not count.
absl::Status StageWorker::ForgetProbe(const v1::StepPlan& probe) {
  v1::StepPlan end;
  for (const v1::NewSequence& added : probe.new_sequences()) end.add_finished(added.sequence());
  activation_in_.Clear();
  activation_out_.Clear();
  return Apply(end);
}

absl::Status StageWorker::Apply(const v1::StepPlan& plan) {
  TUTTI_RETURN_IF_ERROR(table_->Apply(plan));
  if (!drafter_.has_value()) return absl::OkStatus();
  for (const uint64_t id : plan.finished()) drafter_->Forget(SequenceId(id));
  return absl::OkStatus();
}

void StageWorker::SendDone(uint64_t step, const StepTimes& times) {
  v1::Frame frame = NewFrame();
  v1::StepDone* done = nullptr;
  if (tells()) {
    FillResult(step, frame.mutable_step_result());
    done = frame.mutable_step_result()->mutable_done();
  } else {
    done = frame.mutable_step_done();
  }
  done->set_step(step);
  done->set_compute_us(Microseconds(times.compute));
  done->set_wait_us(Microseconds(times.wait));
  done->set_draft_us(Microseconds(times.draft));
  if (drafter_.has_value()) done->set_draft_passes(drafter_->passes());
  *done->mutable_activation_in() = activation_in_;
  *done->mutable_activation_out() = activation_out_;
  const kernels::CollectiveTraffic traffic = runner_->rank_traffic();
  done->set_exchange_wait_us(
      static_cast<int64_t>(1e6 * (traffic.waiting_seconds - told_waiting_seconds_)));
  told_waiting_seconds_ = traffic.waiting_seconds;
  done->mutable_exchange_in()->set_bytes(traffic.bytes_in);
  done->mutable_exchange_in()->set_frames(traffic.frames_in);
  done->mutable_exchange_out()->set_bytes(traffic.bytes_out);
  done->mutable_exchange_out()->set_frames(traffic.frames_out);
  outbox_->ToCoordinator(std::move(frame));
}

void StageWorker::FillResult(uint64_t step, v1::StepResult* result) {
  CHECK(sampled_.size() == batch_.sample_rows.size())
      << sampled_.size() << " samples for " << batch_.sample_rows.size() << " rows";
  result->set_step(step);
  for (size_t i = 0; i < sampled_.size(); ++i) {
    v1::SampledToken& token = sampled_[i];
    if (token.token() == kTokenNotDrawn) continue;
    const auto& grammar = batch_.sample_rows[i].sequence->grammar;
    if (token.token() >= 0) {
      result->add_sampled()->Swap(&token);
    } else if (token.token() == kLateToken) {
      result->add_late(token.sequence());
    } else if (grammar != nullptr && !grammar->end().ok()) {
      v1::UndrawnRow* const undrawn = result->add_undrawn();
      undrawn->set_sequence(token.sequence());
      undrawn->set_code(static_cast<int32_t>(grammar->end().code()));
      undrawn->set_message(std::string(grammar->end().message()));
    } else {
      result->add_poisoned(token.sequence());
    }
  }
  result->mutable_faults()->Add(faults_.begin(), faults_.end());
  if (drafter_.has_value()) drafter_->AddDrafted(result);
}

// Runs no further steps of this epoch.
void StageWorker::Stop(const absl::Status& status) {
  status_ = status;
  if (drafter_.has_value()) drafter_->ForgetAll();
  table_.reset();
  sequencer_.reset();
}

// Reports the reason and stops: the shard's fate is up to the coordinator.
void StageWorker::Fail(const absl::Status& status, bool lasting) {
  Stop(status);
  v1::Frame frame = NewFrame();
  frame.mutable_failure()->set_message(status.ToString());
  frame.mutable_failure()->set_lasting(lasting);
  outbox_->ToCoordinator(std::move(frame));
}

v1::Frame StageWorker::NewFrame() const {
  v1::Frame frame;
  frame.set_epoch(epoch_.value());
  return frame;
}

}  // namespace tutti::worker
