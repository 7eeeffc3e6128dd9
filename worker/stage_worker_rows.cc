// The places where the rows of a step come from and go to, and what is computed between.
#include <algorithm>
#include <functional>
#include <utility>

#include "transport/crc32c.h"
#include "transport/frame_rules.h"
#include "worker/limits.h"
#include "worker/stage_worker.h"

namespace tutti::worker {

void StageWorker::Count(int64_t bytes, v1::LinkCounters* counters) {
  counters->set_bytes(counters->bytes() + bytes);
  counters->set_frames(counters->frames() + 1);
}

absl::StatusOr<StageWorker::Rows> StageWorker::PrepareRows(const ReadyStep& ready,
                                                           const StagePart& part) {
  Rows rows;
  const int64_t bytes = batch_.rows * runner_->activation_row_bytes();
  if (ready.on_device) {
    TUTTI_ASSIGN_OR_RETURN(const std::byte* const slot, row_channel_->Await());
    rows.in = {slot, static_cast<size_t>(bytes)};
    rows.in_on_device = true;
  } else if (ready.activation != nullptr) {
    rows.in = ready.activation->bytes;
  }
  if (is_last() || batch_.rows == 0 || !(part.computes || part.replays)) return rows;
  std::byte* slot = nullptr;
  // Rows that are kept lie in the host's memory.
  if (row_channel_ != nullptr && !ready.plan.has_rebuild()) {
    TUTTI_ASSIGN_OR_RETURN(slot, row_channel_->AcquireSlot());
  }
  rows.out_on_device = slot != nullptr;
  if (!rows.out_on_device) rows.out_buffer = output_pool_->Acquire(bytes);
  rows.out =
      rows.out_on_device ? std::span(slot, static_cast<size_t>(bytes)) : rows.out_buffer->bytes;
  return rows;
}

// The rows that leave the layers are kept, also where a rebuild ends and they go no further.
absl::Status StageWorker::Compute(const StagePart& part, const Rows& rows,
                                  const ProgressCallback& progress, const BeginCallback& begin) {
  sampled_.clear();
  if (part.replays) {
    // A rank that feeds no other has kept none.
    return shard_.next_worker_ids().empty() ? absl::OkStatus() : kept_.Load(batch_, rows.out);
  }
  if (!part.computes || batch_.rows == 0) return absl::OkStatus();
  if (begin) begin(Works::kShard, runner_->WorkOf(batch_));
  TUTTI_RETURN_IF_ERROR(runner_->Run(batch_, rows.in, rows.out, &sampled_, Counted(progress)));
  if (rows.out_on_device) {
    kept_.Drop(batch_);
  } else if (rows.out_buffer != nullptr) {
    kept_.Store(batch_, rows.out);
  }
  return absl::OkStatus();
}

ProgressCallback StageWorker::Counted(const ProgressCallback& progress) {
  return [this, &progress] {
    ++progress_count_;
    if (progress) progress();
  };
}

// No part of the time in which the step is computed: who plans steps counts it by itself.
absl::StatusOr<Duration> StageWorker::Draft(const v1::StepPlan& plan,
                                            const ProgressCallback& progress,
                                            const BeginCallback& begin) {
  if (!drafter_.has_value()) return Duration();
  const Instant since = clock_->Now();
  const auto begins = [&](const StageRunner::StepWork& work) {
    if (begin) begin(Works::kDraftModel, work);
  };
  TUTTI_RETURN_IF_ERROR(
      Annotate(drafter_->GoOn(plan, *table_, sampled_, Counted(progress), std::cref(begins)),
               "the draft model"));
  ++progress_count_;
  return clock_->Now() - since;
}

absl::Status StageWorker::PassOn(const StagePart& part, const Rows& rows) {
  if (!part.passes_on) return absl::OkStatus();
  if (rows.out_on_device) return SendOnDevice(static_cast<int64_t>(rows.out.size()));
  if (rows.out_buffer != nullptr) SendActivation(rows.out_buffer);
  return absl::OkStatus();
}

// They travel with the step to the last stage, which reports its result.
void StageWorker::CollectFaults(std::vector<v1::NumericFault> earlier) {
  faults_ = std::move(earlier);
  for (v1::NumericFault& fault : runner_->PopFaults()) {
    if (static_cast<int64_t>(faults_.size()) == kNumericFaultsMax) break;
    faults_.push_back(std::move(fault));
  }
}

// The frame follows the rows: its reader finds them on their way.
absl::Status StageWorker::SendOnDevice(int64_t bytes) {
  TUTTI_RETURN_IF_ERROR(row_channel_->Send(bytes));
  v1::Frame frame = NewActivation(0, batch_.rows);
  frame.mutable_activation()->set_on_device(true);
  frame.mutable_activation()->mutable_faults()->Add(faults_.begin(), faults_.end());
  Count(transport::EncodedFrameBytes(frame, 0) + bytes, &activation_out_);
  outbox_->ToNextStage(std::move(frame), transport::Payload());
  return absl::OkStatus();
}

void StageWorker::SendActivation(const std::shared_ptr<ActivationBuffer>& buffer) {
  const int32_t rows = batch_.rows;
  const int64_t row_bytes = runner_->activation_row_bytes();
  const auto chunk_rows = static_cast<int32_t>(transport::kPayloadChunkBytes / row_bytes);
  for (int32_t first = 0; first < rows; first += chunk_rows) {
    const int32_t count = std::min(chunk_rows, rows - first);
    const std::span<const std::byte> bytes =
        buffer->bytes.subspan(first * row_bytes, count * row_bytes);
    v1::Frame frame = NewActivation(first, count);
    v1::Activation* chunk = frame.mutable_activation();
    chunk->set_checksum(transport::Crc32c(bytes));
    if (first + count == rows) chunk->mutable_faults()->Add(faults_.begin(), faults_.end());
    Count(transport::EncodedFrameBytes(frame, static_cast<int64_t>(bytes.size())),
          &activation_out_);
    outbox_->ToNextStage(std::move(frame), transport::Payload{.chunks = {bytes}, .owner = buffer});
  }
}

v1::Frame StageWorker::NewActivation(int32_t first_row, int32_t rows) const {
  v1::Frame frame = NewFrame();
  v1::Activation* chunk = frame.mutable_activation();
  chunk->set_step(batch_.step.value());
  chunk->set_first_row(first_row);
  chunk->set_rows(rows);
  chunk->set_total_rows(batch_.rows);
  chunk->set_row_bytes(static_cast<int32_t>(runner_->activation_row_bytes()));
  return frame;
}

}  // namespace tutti::worker
