#include "transport/grpc/grpc_stream.h"

#include <grpc/support/time.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/frame_rules.h"
#include "transport/grpc/close_frame.h"
#include "transport/grpc/frame_codec.h"
#include "transport/limits.h"

namespace tutti::transport {

absl::Status StreamRegistry::Add(const std::shared_ptr<StreamState>& stream, int64_t limit) {
  const MutexLock lock(&mutex_);
  if (stopped_) return absl::UnavailableError("no more links are made: shutting down");
  if (static_cast<int64_t>(streams_.size()) >= limit) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", limit, " links already"));
  }
  streams_.emplace(stream.get(), Entry{stream, ++last_number_});
  return absl::OkStatus();
}

void StreamRegistry::Remove(const StreamState* stream) {
  const MutexLock lock(&mutex_);
  streams_.erase(stream);
  // Notified under the lock: the waiter may destroy this object as soon as it has seen the change.
  if (streams_.empty()) empty_.NotifyAll();
}

std::vector<std::shared_ptr<StreamState>> StreamRegistry::Snapshot() {
  const MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<StreamState>> streams;
  for (const auto& [key, entry] : streams_) streams.push_back(entry.stream);
  return streams;
}

void StreamRegistry::EvictStrangers(int64_t strangers_max) {
  std::map<uint64_t, std::shared_ptr<StreamState>> strangers;
  {
    const MutexLock lock(&mutex_);
    if (static_cast<int64_t>(streams_.size()) <= strangers_max) return;
    for (const auto& [key, entry] : streams_) {
      if (entry.stream->is_stranger()) strangers.emplace(entry.number, entry.stream);
    }
  }
  auto left = static_cast<int64_t>(strangers.size());
  for (const auto& [number, stream] : strangers) {
    if (left-- <= strangers_max) return;
    stream->Close(absl::ResourceExhaustedError(
        absl::StrCat("more than ", strangers_max,
                     " peers have not said who they are; a newer one takes this "
                     "one's place")));
  }
}

void StreamRegistry::Stop(const absl::Status& reason, std::chrono::milliseconds grace) {
  {
    const MutexLock lock(&mutex_);
    stopped_ = true;
  }
  for (const auto& stream : Snapshot()) stream->Close(reason);
  {
    const auto deadline = std::chrono::steady_clock::now() + grace;
    const MutexLock lock(&mutex_);
    while (!streams_.empty() && empty_.WaitUntil(&mutex_, deadline)) continue;
    if (streams_.empty()) return;
  }
  for (const auto& stream : Snapshot()) stream->Cancel();
  const MutexLock lock(&mutex_);
  while (!streams_.empty()) empty_.Wait(&mutex_);
}

StreamState::StreamState(Role role, std::string peer, std::shared_ptr<StreamRegistry> registry)
    : role_(role), peer_(std::move(peer)), registry_(std::move(registry)) {}

void StreamState::SetHandler(std::unique_ptr<LinkHandler> handler) {
  handler_ = std::move(handler);
  (void)Budget();
}

std::shared_ptr<ReceiveBudget> StreamState::Budget() {
  {
    const MutexLock lock(&mutex_);
    if (budget_ != nullptr || handler_ == nullptr) return budget_;
  }
  std::shared_ptr<ReceiveBudget> budget = handler_->budget();
  if (budget == nullptr) return nullptr;
  const MutexLock lock(&mutex_);
  budget_ = budget;
  return budget;
}

bool StreamState::is_stranger() const {
  const MutexLock lock(&mutex_);
  return budget_ != nullptr && !budget_->is_known();
}

void StreamState::NeverBegin() {
  const MutexLock lock(&mutex_);
  closed_ = over_ = ended_ = true;
}

void StreamState::Distrust(std::chrono::milliseconds patience, absl::Status refusal) {
  is_trusted_ = false;
  refusal_ = std::move(refusal);
  const gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                             gpr_time_from_millis(patience.count(), GPR_TIMESPAN));
  const MutexLock lock(&mutex_);
  trust_timer_.emplace();
  trust_timer_->Set(deadline, [weak = weak_from_this(), reason = refusal_](bool is_due) {
    if (!is_due) return;
    if (const auto stream = weak.lock()) stream->Close(reason);
  });
}

void StreamState::Trust() {
  is_trusted_ = true;
  std::optional<grpc::Alarm> timer;
  const MutexLock lock(&mutex_);
  timer.swap(trust_timer_);
  budget_ = nullptr;
}

void StreamState::Accept(const AcceptCallback& accept) {
  {
    const MutexLock lock(&mutex_);
    is_accepting_ = true;
  }
  SetHandler(accept(std::make_unique<GrpcLink>(shared_from_this())));
  bool is_dropped;
  {
    const MutexLock lock(&mutex_);
    is_accepting_ = false;
    is_dropped = dropped_;
  }
  if (handler_ == nullptr) {
    Close(absl::PermissionDeniedError("the listener refused the connection"));
  } else if (is_dropped) {
    Close(absl::OkStatus());
  }
}

absl::Status StreamState::Send(const v1::Frame& frame, const Payload& payload) {
  TUTTI_RETURN_IF_ERROR(CheckFrame(frame, payload));
  // Encoding takes the time, so it is done before the lock is.
  const int64_t size = EncodedFrameBytes(frame, payload.size());
  const int64_t cost = size + kQueuedFrameOverheadBytes;
  grpc::ByteBuffer bytes = EncodeFrame(frame, payload);
  Next next;
  {
    const MutexLock lock(&mutex_);
    if (closed_) return absl::UnavailableError(absl::StrCat("link to ", peer_, " is closed"));
    if (queue_cost_ + cost > kQueuedBytesMax) {
      return absl::ResourceExhaustedError(absl::StrCat("link to ", peer_, ": ", queue_cost_,
                                                       " bytes queued, at most ", kQueuedBytesMax));
    }
    queue_cost_ += cost;
    queue_.push_back({std::move(bytes), size, cost});
    next = DecideNext();
  }
  StartNext(next);
  return absl::OkStatus();
}

StreamState::Next StreamState::DecideNext() {
  Next next;
  next.operations = operations_;
  if (writing_ || resuming_ > 0 || ended_) return next;
  if (!over_ && !queue_.empty()) {
    current_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    if (current_.cost > 0) {
      bytes_out_ += current_.size;
      frames_out_ += 1;
    }
    next.kind = Next::Kind::kWrite;
    next.frame = &current_.bytes;
    if (!queue_.empty() && current_.size <= kGatheredFrameBytesMax) next.options.set_buffer_hint();
  } else if (over_ || closing_) {
    ended_ = true;
    next.kind = Next::Kind::kEnd;
    next.status = end_status_;
  }
  return next;
}

void StreamState::StartNext(const Next& next) {
  switch (next.kind) {
    case Next::Kind::kNothing:
      return;
    case Next::Kind::kWrite:
      return next.operations->Write(next.frame, next.options);
    case Next::Kind::kEnd:
      return next.operations->End(next.status);
  }
}

void StreamState::OnWritten(bool ok) {
  if (!ok) return StreamOver(/*was_writing=*/true);
  // Let go of without the lock: a payload's owner may have a destructor of any length.
  Queued written;
  Next next;
  {
    const MutexLock lock(&mutex_);
    writing_ = false;
    written = std::exchange(current_, {});
    queue_cost_ -= written.cost;
    next = DecideNext();
  }
  StartNext(next);
}

void StreamState::StreamOver(bool was_writing) {
  std::deque<Queued> unsent;
  Queued written;
  Next next;
  {
    const MutexLock lock(&mutex_);
    // The frames that the peer had sent are not delivered any more: the receiver has no room for
    // it.
    silenced_ |= paused_;
  }
  ResumeReading();
  {
    const MutexLock lock(&mutex_);
    if (was_writing) {
      writing_ = false;
      written = std::exchange(current_, {});
    }
    over_ = closed_ = true;
    unsent.swap(queue_);
    queue_cost_ = 0;
    StartCloseTimer();
    next = DecideNext();
  }
  StartNext(next);
}

void StreamState::CloseWith(const absl::Status& reason, bool drop_queue) {
  std::deque<Queued> unsent;
  Next next;
  {
    const MutexLock lock(&mutex_);
    silenced_ = true;
  }
  // gRPC gives a dialer the stream's status only once all before it is read.
  ResumeReading();
  {
    const MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = closing_ = true;
    reason_ = end_status_ = CloseReason(reason);
    if (drop_queue) unsent.swap(queue_);
    if (role_ == Role::kDialer) queue_.push_back({EncodeCloseFrame(reason)});
    StartCloseTimer();
    next = DecideNext();
  }
  StartNext(next);
}

void StreamState::Drop() {
  {
    const MutexLock lock(&mutex_);
    dropped_ = true;
    // A listener that refuses lets go of the link before it says so.
    if (is_accepting_) return;
  }
  Close(absl::OkStatus());
}

void StreamState::StartCloseTimer() {
  if (close_timer_.has_value()) return;
  close_timer_.emplace();
  const gpr_timespec deadline = gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kCloseTimeout.count(), GPR_TIMESPAN));
  close_timer_->Set(deadline, [weak = weak_from_this()](bool is_due) {
    if (!is_due) return;
    if (const auto stream = weak.lock()) stream->Cancel();
  });
}

void StreamState::Cancel() {
  Operations* operations;
  {
    const MutexLock lock(&mutex_);
    if (operations_ == nullptr) return;
    operations = operations_;
    ++pins_;
  }
  operations->Cancel();
  const MutexLock lock(&mutex_);
  if (--pins_ == 0) unpinned_.NotifyAll();
}

void StreamState::Detach() {
  const MutexLock lock(&mutex_);
  operations_ = nullptr;
  while (pins_ > 0) unpinned_.Wait(&mutex_);
}

bool StreamState::MayRead() {
  const std::shared_ptr<ReceiveBudget> budget = Budget();
  if (budget == nullptr || budget->has_room()) return true;
  {
    const MutexLock lock(&mutex_);
    if (silenced_) return true;  // read and dropped until the stream ends
    paused_ = true;
  }
  const bool waits = budget->WaitForRoom([weak = weak_from_this()] {
    if (const auto stream = weak.lock()) stream->ResumeReading();
  });
  if (waits) return false;
  const MutexLock lock(&mutex_);
  return std::exchange(paused_, false);
}

void StreamState::ResumeReading() {
  Operations* operations;
  {
    const MutexLock lock(&mutex_);
    if (!std::exchange(paused_, false) || ended_ || operations_ == nullptr) return;
    operations = operations_;
    ++resuming_;
  }
  operations->Read();
  Next next;
  {
    const MutexLock lock(&mutex_);
    --resuming_;
    next = DecideNext();
  }
  StartNext(next);
}

void StreamState::OnRead(const grpc::ByteBuffer& bytes) {
  {
    const MutexLock lock(&mutex_);
    if (silenced_) return;
  }
  const auto budget = Budget();
  if (budget != nullptr && static_cast<int64_t>(bytes.Length()) > budget->frame_bytes_max()) {
    const absl::Status too_long = absl::ResourceExhaustedError(absl::StrCat(
        "frame: ", bytes.Length(), " bytes before hello, at most ", budget->frame_bytes_max()));
    return CloseWith(is_trusted_ ? too_long : refusal_, /*drop_queue=*/true);
  }
  v1::Frame frame;
  Payload payload;
  const absl::Status decoded = DecodeFrame(bytes, &frame, &payload);
  if (!decoded.ok()) return CloseWith(is_trusted_ ? decoded : refusal_, /*drop_queue=*/true);
  if (auto reason = ReadCloseFrame(frame, payload)) {
    frames_in_ += 1;
    {
      const MutexLock lock(&mutex_);
      silenced_ = true;
      if (!reason_.has_value()) reason_ = std::move(*reason);
    }
    return StreamOver(/*was_writing=*/false);
  }
  bytes_in_ += static_cast<int64_t>(bytes.Length());
  frames_in_ += 1;
  handler_->OnFrame(std::move(frame), std::move(payload));
}

void StreamState::OnDone(const std::optional<absl::Status>& status) {
  absl::Status reason;
  std::optional<grpc::Alarm> timer, trust_timer;
  {
    const MutexLock lock(&mutex_);
    closed_ = over_ = true;
    timer.swap(close_timer_);
    trust_timer.swap(trust_timer_);
    if (reason_.has_value()) {
      reason = *reason_;
    } else if (status.has_value()) {
      reason = *status;
    } else {
      // gRPC has no name for who connects to a Unix socket.
      const std::string way = peer_ == "unix:" ? "over a Unix socket" : "to " + peer_;
      reason = absl::UnavailableError(absl::StrCat("the connection ", way, " was lost"));
    }
  }
  timer.reset();
  trust_timer.reset();
  if (handler_ != nullptr) handler_->OnClosed(std::move(reason));
  handler_.reset();
  registry_->Remove(this);
}

LinkStats StreamState::stats() const {
  return {bytes_out_.load(), frames_out_.load(), bytes_in_.load(), frames_in_.load()};
}

void GrpcLink::Close(absl::Status reason) { stream_->Close(reason); }

}  // namespace tutti::transport
