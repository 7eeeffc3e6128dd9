#include "door/grpc/generate_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace tutti::door {
namespace {

// The memory of a pending response beside its strings.
constexpr int64_t kPendingBytes = 128;

}  // namespace

int64_t GenerateStream::Pending::bytes() const {
  return kPendingBytes + static_cast<int64_t>(text.size() + tokens.size());
}

v1::GenerateResponse GenerateStream::Pending::Whole() const {
  v1::GenerateResponse whole;
  whole.ParseFromString(tokens);
  whole.set_output(output);
  whole.set_index(index);
  whole.set_text(text);
  if (finish) *whole.mutable_finish() = *finish;
  if (started) *whole.mutable_started() = *started;
  return whole;
}

grpc::ByteBuffer GenerateStream::Pending::Encoded() const {
  v1::GenerateResponse rest;
  rest.set_output(output);
  rest.set_index(index);
  rest.set_text(text);
  if (finish) *rest.mutable_finish() = *finish;
  if (started) *rest.mutable_started() = *started;
  const size_t head = rest.ByteSizeLong();
  grpc::Slice slice(head + tokens.size());
  auto* const bytes = const_cast<uint8_t*>(slice.begin());
  rest.SerializeToArray(bytes, static_cast<int>(head));
  std::copy(tokens.begin(), tokens.end(), bytes + head);
  return grpc::ByteBuffer(&slice, 1);
}

bool GenerateStream::Attach(int32_t n, ByteBudget::Charge prompt, OnUnwanted on_unwanted) {
  const MutexLock lock(&mutex_);
  if (unwanted_) return false;
  n_ = n;
  if (!final_status_) prompt_ = std::move(prompt);
  on_unwanted_ = std::move(on_unwanted);
  return true;
}

void GenerateStream::Identify(const std::string& request_id, RequestId id, Hash128 tenant) {
  const MutexLock lock(&mutex_);
  record_.Identify(request_id, id, tenant);
  trace_.Identify(request_id, id);
}

void GenerateStream::SetTrace(StreamTrace trace) {
  const MutexLock lock(&mutex_);
  trace_ = std::move(trace);
}

void GenerateStream::SetTranslate(Translate translate, bool is_whole) {
  const MutexLock lock(&mutex_);
  is_whole_ = is_whole;
  translate_ = std::move(translate);
}

void GenerateStream::SetEndLocked(absl::Status status, Next* next) {
  next->record = record_;
  next->trace = trace_;
  next->end = status;
  final_status_ = std::move(status);
}

bool GenerateStream::ended() const {
  const MutexLock lock(&mutex_);
  return final_status_.has_value();
}

// A client that reads has one message of an output waiting at most; one that does not gets them
// merged. As bytes: messages of ids and log-probabilities are several times as large in memory.
void GenerateStream::MergeLocked(v1::GenerateResponse response) {
  auto found = std::find_if(pending_.begin(), pending_.end(), [&response](const Pending& pending) {
    return pending.output == response.output();
  });
  if (found == pending_.end()) {
    found =
        pending_.insert(pending_.end(), {.output = response.output(), .index = response.index()});
    pending_bytes_ += found->bytes();
  }
  pending_bytes_ -= found->bytes();
  found->text.append(response.text());
  if (response.has_finish()) found->finish = std::move(*response.mutable_finish());
  if (response.has_started()) found->started = std::move(*response.mutable_started());
  v1::GenerateResponse tokens;
  tokens.mutable_tokens()->Swap(response.mutable_tokens());
  tokens.AppendToString(&found->tokens);
  pending_bytes_ += found->bytes();
}

bool GenerateStream::CountUnreadLocked() {
  const int64_t unread = pending_bytes_ + writing_bytes_;
  if (unread > door()->options.unread_bytes * n_) return false;
  return UnreadLocked().CountPieces(unread);
}

UnreadOutput& GenerateStream::UnreadLocked() {
  if (!unread_) unread_.emplace(&door()->budget, client());
  return *unread_;
}

int64_t GenerateStream::WholeBytesLocked() const {
  int64_t bytes = pending_bytes_ + writing_bytes_;
  for (const grpc::ByteBuffer& message : translated_)
    bytes += static_cast<int64_t>(message.Length());
  return bytes;
}

// A message that comes behind a whole answer that lies unread lies there too.
bool GenerateStream::CountWholeLocked() { return UnreadLocked().CountWhole(WholeBytesLocked()); }

GenerateStream::OnUnwanted GenerateStream::GiveUpLocked() {
  unwanted_ = true;
  translated_.clear();
  pending_.clear();
  pending_bytes_ = 0;
  prompt_ = {};
  return std::exchange(on_unwanted_, nullptr);
}

void GenerateStream::Write(v1::GenerateResponse response) {
  Next next;
  bool too_much = false;
  {
    const MutexLock lock(&mutex_);
    if (finished_ || final_status_) return;
    record_.Count(response);
    trace_.Count(response);
    MergeLocked(std::move(response));
    too_much = writing_ && is_whole_ && !CountWholeLocked();
    if (writing_ && !is_whole_ && !CountUnreadLocked()) {
      SetEndLocked(TooMuchUnread(pending_bytes_ + writing_bytes_, door()->options.unread_bytes),
                   &next);
      next.unwanted = GiveUpLocked();
      SetLingerLocked(door()->options.unread_linger);
    }
    FillNextLocked(&next);
  }
  Do(next);
  if (too_much) ResetUnread();
}

void GenerateStream::Finish(absl::Status status) {
  Next next;
  {
    const MutexLock lock(&mutex_);
    if (finished_ || final_status_) return;
    SetEndLocked(std::move(status), &next);
    prompt_ = {};
    FillNextLocked(&next);
  }
  Do(next);
}

void GenerateStream::OnWriteDone(bool ok) {
  Next next;
  {
    const MutexLock lock(&mutex_);
    writing_ = false;
    writing_bytes_ = 0;
    current_.Clear();
    if (is_whole_) {
      whole_unread_.Cancel();
      linger_.Cancel();
    }
    if (!ok) {  // the client is gone; OnCancel says so
      translated_.clear();
      pending_.clear();
      pending_bytes_ = 0;
    }
    FillNextLocked(&next);
  }
  Do(next);
}

void GenerateStream::OnCancel() {
  Next next;
  {
    const MutexLock lock(&mutex_);
    if (!final_status_) SetEndLocked(absl::CancelledError("the client left"), &next);
    next.unwanted = GiveUpLocked();
    FillNextLocked(&next);
  }
  Do(next);
}

void GenerateStream::SetLingerLocked(Duration delay) {
  linger_due_ = SystemClock().Now() + delay;
  SetAlarm(&linger_, delay, std::static_pointer_cast<GenerateStream>(shared_from_this()),
           &GenerateStream::OnLinger);
}

void GenerateStream::OnLinger() {
  {
    const MutexLock lock(&mutex_);
    if (SystemClock().Now() < linger_due_) return;  // set again since it fired
  }
  ResetUnread();
}

void GenerateStream::ResetUnread() {
  {
    const MutexLock lock(&mutex_);
    if (!writing_ || resetting_) return;
    resetting_ = true;  // the call is not finished meanwhile
  }
  Reset();  // may call back
  Next next;
  {
    const MutexLock lock(&mutex_);
    resetting_ = false;
    FillNextLocked(&next);
  }
  Do(next);
}

void GenerateStream::OnWholeUnread() {
  {
    const MutexLock lock(&mutex_);
    if (!writing_ || SystemClock().Now() < whole_unread_due_) return;
    if (UnreadLocked().BeginWhole(WholeBytesLocked())) {
      return SetLingerLocked(door()->options.read_max);
    }
  }
  ResetUnread();
}

bool GenerateStream::TakeMessageLocked() {
  while (translated_.empty()) {
    if (pending_.empty()) return false;
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    pending_bytes_ -= pending.bytes();
    if (!translate_) {
      current_ = pending.Encoded();
      return true;
    }
    for (grpc::ByteBuffer& message : translate_(pending.Whole())) {
      translated_.push_back(std::move(message));
    }
  }
  current_ = std::move(translated_.front());
  translated_.pop_front();
  return true;
}

void GenerateStream::FillNextLocked(Next* next) {
  if (writing_ || resetting_ || finished_) return;
  if (TakeMessageLocked()) {
    writing_bytes_ = static_cast<int64_t>(current_.Length());
    writing_ = next->write = true;
    if (is_whole_) {
      whole_unread_due_ = SystemClock().Now() + door()->options.read_grace;
      SetAlarm(&whole_unread_, door()->options.read_grace,
               std::static_pointer_cast<GenerateStream>(shared_from_this()),
               &GenerateStream::OnWholeUnread);
    }
    return;
  }
  if (unread_) unread_->Clear();
  if (final_status_) {
    finished_ = true;
    next->finish = final_status_;
  }
}

void GenerateStream::Do(const Next& next) {
  if (next.record) next.record->LogEnd(next.end, &door()->refusal_lines);
  if (next.trace) next.trace->End(next.end);
  if (next.write) StartWrite(&current_);
  if (next.finish) FinishCall(*next.finish);
  if (next.unwanted) next.unwanted();
}

}  // namespace tutti::door
