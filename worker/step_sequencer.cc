#include "worker/step_sequencer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/crc32c.h"
#include "worker/limits.h"
#include "worker/stage_part.h"

namespace tutti::worker {

StepSequencer::StepSequencer(const Options& options)
    : options_(options),
      pool_(options.takes_activations
                ? options.activation_row_bytes * int64_t{options.max_batch_tokens}
                : 0) {}

absl::Status StepSequencer::OnPlan(v1::StepPlan plan, Instant now) {
  const uint64_t next = plan.probe() ? 0 : std::max<uint64_t>(next_plan_, 1);
  if (plan.step() != next || (plan.probe() && next_plan_ > 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat(plan.probe() ? "probe" : "plan", " of step ", plan.step(), " came where ",
                     std::max<uint64_t>(next_plan_, 1), " is next"));
  }
  if (plans_.size() >= static_cast<size_t>(options_.max_steps_ahead)) {
    return absl::ResourceExhaustedError(absl::StrCat("plan of step ", plan.step(), " came while ",
                                                     plans_.size(), " plans wait, the most kept"));
  }
  TUTTI_RETURN_IF_ERROR(CheckRebuild(plan, options_.num_stages));
  next_plan_ = plan.step() + 1;
  plans_.push_back({std::move(plan), now});
  return absl::OkStatus();
}

absl::Status StepSequencer::OnActivation(const v1::Activation& chunk,
                                         const transport::Payload& payload, Instant now) {
  if (!options_.takes_activations) {
    return absl::FailedPreconditionError(
        absl::StrCat("activation of step ", chunk.step(), " came to the first stage"));
  }
  if (activations_.empty() || activations_.back().rows_here == activations_.back().total_rows) {
    TUTTI_RETURN_IF_ERROR(Begin(chunk));
  }
  TUTTI_RETURN_IF_ERROR(CheckChunk(chunk, payload.size()));
  if (!chunk.on_device()) TUTTI_RETURN_IF_ERROR(Copy(chunk, payload));
  WaitingActivation& waiting = activations_.back();
  waiting.rows_here += chunk.rows();
  if (waiting.rows_here == waiting.total_rows) waiting.completed = now;
  waiting.faults.insert(waiting.faults.end(), chunk.faults().begin(), chunk.faults().end());
  return absl::OkStatus();
}

absl::Status StepSequencer::Copy(const v1::Activation& chunk, const transport::Payload& payload) {
  std::byte* const begin =
      activations_.back().buffer->bytes.data() + chunk.first_row() * options_.activation_row_bytes;
  std::byte* to = begin;
  for (const std::span<const std::byte> part : payload.chunks) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  // The checksum of the copy: the bytes checked are the bytes computed with.
  const uint32_t checksum = transport::Crc32c(std::span<const std::byte>(begin, to));
  if (checksum != chunk.checksum()) {
    return absl::DataLossError(absl::StrCat("activation of step ", chunk.step(), " from row ",
                                            chunk.first_row(), ": checksum is ", checksum,
                                            ", sender wrote ", chunk.checksum()));
  }
  return absl::OkStatus();
}

// Makes room for a step's activation when its first chunk comes.
absl::Status StepSequencer::Begin(const v1::Activation& chunk) {
  if (chunk.step() < least_activation_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "activation of step ", chunk.step(), " came after all of step ", least_activation_ - 1));
  }
  if (chunk.step() > last_released_ + static_cast<uint64_t>(options_.max_steps_ahead)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("activation of step ", chunk.step(), " is ", chunk.step() - last_released_,
                     " steps ahead, at most ", options_.max_steps_ahead));
  }
  if (chunk.total_rows() < 1 || chunk.total_rows() > options_.max_batch_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("activation of step ", chunk.step(), " has ",
                                                   chunk.total_rows(), " rows, not 1 to ",
                                                   options_.max_batch_tokens));
  }
  least_activation_ = chunk.step() + 1;
  activations_.push_back(
      {.step = chunk.step(),
       .total_rows = chunk.total_rows(),
       .rows_here = 0,
       .buffer = chunk.on_device()
                     ? nullptr
                     : pool_.Acquire(chunk.total_rows() * options_.activation_row_bytes),
       .completed = {},
       .faults = {}});
  return absl::OkStatus();
}

absl::Status StepSequencer::CheckChunk(const v1::Activation& chunk, int64_t payload_bytes) const {
  const WaitingActivation& waiting = activations_.back();
  if (chunk.step() != waiting.step) {
    return absl::FailedPreconditionError(
        absl::StrCat("activation of step ", chunk.step(), " came after ", waiting.rows_here, " of ",
                     waiting.total_rows, " rows of step ", waiting.step));
  }
  if (chunk.total_rows() != waiting.total_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("activation of step ", chunk.step(), " has ", chunk.total_rows(),
                     " rows, its first chunk said ", waiting.total_rows));
  }
  if (chunk.row_bytes() != options_.activation_row_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("activation of step ", chunk.step(), " has rows of ", chunk.row_bytes(),
                     " bytes, ours are ", options_.activation_row_bytes));
  }
  if (chunk.first_row() != waiting.rows_here) {
    return absl::FailedPreconditionError(absl::StrCat("activation of step ", chunk.step(),
                                                      ": chunk begins at row ", chunk.first_row(),
                                                      ", row ", waiting.rows_here, " is next"));
  }
  if (chunk.rows() < 1 || chunk.rows() > waiting.total_rows - waiting.rows_here) {
    return absl::InvalidArgumentError(
        absl::StrCat("activation of step ", chunk.step(), ": chunk of ", chunk.rows(),
                     " rows where 1 to ", waiting.total_rows - waiting.rows_here, " are missing"));
  }
  const auto faults = static_cast<int64_t>(waiting.faults.size()) + chunk.faults_size();
  if (faults > kNumericFaultsMax) {
    return absl::InvalidArgumentError(absl::StrCat("activation of step ", chunk.step(), " names ",
                                                   faults, " numeric faults, at most ",
                                                   kNumericFaultsMax));
  }
  if (chunk.on_device() != (waiting.buffer == nullptr) ||
      (chunk.on_device() && chunk.rows() != waiting.total_rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("activation of step ", chunk.step(), ": ", chunk.rows(), " of ",
                     waiting.total_rows, " rows come from device to device, the others do not"));
  }
  const int64_t bytes = chunk.on_device() ? 0 : chunk.rows() * options_.activation_row_bytes;
  if (payload_bytes != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("activation of step ", chunk.step(),
                                                   ": chunk of ", chunk.rows(), " rows has ",
                                                   payload_bytes, " bytes, not ", bytes));
  }
  return absl::OkStatus();
}

absl::Status StepSequencer::Next(std::optional<ReadyStep>* ready) {
  ready->reset();
  if (plans_.empty()) return absl::OkStatus();
  WaitingPlan& front = plans_.front();
  const bool needs_activation =
      options_.takes_activations && front.plan.total_rows() > 0 &&
      (!front.plan.has_rebuild() ||
       PartOf(front.plan, options_.stage, options_.num_stages).takes_rows);
  ReadyStep step;
  if (needs_activation) {
    if (activations_.empty()) return absl::OkStatus();
    WaitingActivation& activation = activations_.front();
    if (activation.step != front.plan.step() || activation.total_rows != front.plan.total_rows()) {
      return absl::FailedPreconditionError(
          absl::StrCat("plan of step ", front.plan.step(), " has ", front.plan.total_rows(),
                       " rows but the activation next in line is of step ", activation.step,
                       " with ", activation.total_rows));
    }
    if (activation.rows_here < activation.total_rows) return absl::OkStatus();
    step.on_device = activation.buffer == nullptr;
    step.activation = std::move(activation.buffer);
    step.faults = std::move(activation.faults);
    step.wait = std::max(Duration::zero(), activation.completed - front.arrived);
    activations_.pop_front();
  }
  last_released_ = front.plan.step();
  least_activation_ = std::max(least_activation_, last_released_ + 1);
  step.plan = std::move(front.plan);
  plans_.pop_front();
  *ready = std::move(step);
  return absl::OkStatus();
}

}  // namespace tutti::worker
