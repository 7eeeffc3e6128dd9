#include "gateway/kserve/grpc/infer_stream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/grpc/error_details.h"
#include "door/grpc/message_parser.h"
#include "door/limits.h"
#include "door/refusal_pause.h"
#include "gateway/json_text.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// Tags of strings in ModelInferRequest, and how many fields are looked at for them.
constexpr uint32_t kModelNameTag = inference::ModelInferRequest::kModelNameFieldNumber << 3 | 2;
constexpr uint32_t kIdTag = inference::ModelInferRequest::kIdFieldNumber << 3 | 2;
constexpr int kFieldsBeforeNamesMax = 16;

// The names in a message that is not looked at, by which it is answered: among its first fields, as
// all writers have them. Costs nothing that depends on the rest.
inference::ModelInferRequest NamesOf(grpc::ByteBuffer bytes) {
  using Format = google::protobuf::internal::WireFormatLite;
  inference::ModelInferRequest names;
  grpc::ProtoBufferReader reader(&bytes);
  google::protobuf::io::CodedInputStream in(&reader);
  for (int i = 0; i < kFieldsBeforeNamesMax; ++i) {
    const uint32_t tag = in.ReadTag();
    std::string* const name = tag == kModelNameTag ? names.mutable_model_name()
                              : tag == kIdTag      ? names.mutable_id()
                                                   : nullptr;
    if (name == nullptr) {
      if (tag == 0 || !Format::SkipField(&in, tag)) break;
      continue;
    }
    uint32_t length = 0;
    if (!in.ReadVarint32(&length) || length > door::kRequestIdBytesMax ||
        !in.ReadString(name, static_cast<int>(length))) {
      break;
    }
  }
  for (std::string* name : {names.mutable_model_name(), names.mutable_id()}) {
    if (!google::protobuf::internal::IsStructurallyValidUTF8(*name)) name->clear();
  }
  return names;
}

}  // namespace

class InferStream::ReactorOfStream : public Reactor {
 public:
  explicit ReactorOfStream(std::shared_ptr<InferStream> stream) : stream_(std::move(stream)) {
    ++stream_->service_.calls->door()->calls;
  }
  void OnReadDone(bool ok) override { stream_->OnReadDone(ok); }
  void OnWriteDone(bool ok) override { stream_->OnWriteDone(ok); }
  void OnCancel() override { stream_->OnCancel(); }
  void OnDone() override {
    --stream_->service_.calls->door()->calls;
    delete this;
  }

 private:
  const std::shared_ptr<InferStream> stream_;
};

void InferStream::Do(const Next& next) {
  const auto self = shared_from_this();  // the call may be done before this is
  if (next.write) reactor_->StartWrite(&current_);
  if (next.finish) reactor_->Finish(door::ToGrpc(*next.finish));
  for (const Asked& asked : next.unwanted) asked->Leave();
  if (!next.read) return;
  credit_->BeginWait();
  reactor_->StartRead(&read_);
  Next then;
  {
    const MutexLock lock(&mutex_);
    --starting_reads_;
    if (end_) FillLocked(&then);
  }
  if (then.finish) Do(then);
}

InferStream::Reactor* InferStream::Start(grpc::CallbackServerContext* context,
                                         absl::StatusOr<GrpcCaller> caller) {
  context_ = context;
  client_ = door::ClientOf(*context);
  credit_ = service_.calls->door()->book.Find(context->peer());
  auto* const reactor = new ReactorOfStream(shared_from_this());
  reactor_ = reactor;
  if (caller.ok()) {
    caller_ = *caller;
    client_ = caller_.owner();
  }
  Next next;
  {
    const MutexLock lock(&mutex_);
    unread_.emplace(&service_.calls->door()->budget, client_);
    if (!caller.ok()) EndLocked(caller.status(), &next);
    FillLocked(&next);
  }
  Do(next);
  return reactor;
}

void InferStream::Drain() {
  Next next;
  {
    const MutexLock lock(&mutex_);
    draining_ = true;
    FillLocked(&next);
  }
  Do(next);
}

void InferStream::OnReadDone(bool ok) {
  grpc::ByteBuffer bytes;
  bytes.Swap(&read_);
  const auto length = ok ? static_cast<int64_t>(bytes.Length()) : 0;
  credit_->EndWait(ok ? door::CreditOf(0, length) : 0);
  bool taking = false;
  Next next;
  {
    const MutexLock lock(&mutex_);
    reading_ = false;
    half_closed_ = half_closed_ || !ok;
    taking_ = taking = ok && !end_;
    FillLocked(&next);
  }
  Do(next);
  if (!taking) return;
  // A shared pointer: jobs are copied.
  auto charge = std::make_shared<door::ByteBudget::Charge>();
  std::optional<door::ByteBudget::Charge> made =
      service_.calls->door()->budget.Take(client_, length);
  if (made) *charge = *std::move(made);
  const bool runs =
      made.has_value() &&
      service_.calls->RunFor(caller_, length, [self = shared_from_this(), bytes, charge] {
        self->Take(bytes, std::move(*charge));
      });
  if (runs) return;
  // A refusal of this request only: others of the stream go on.
  Refuse(NamesOf(bytes),
         door::Overloaded(made ? "too many requests wait to be read"
                               : "the gateway holds as many bytes for this client as it may "
                                 "now"));
  OnPauseOver();
}

void InferStream::End(absl::Status status) {
  Next next;
  {
    const MutexLock lock(&mutex_);
    EndLocked(std::move(status), &next);
    FillLocked(&next);
  }
  Do(next);
}

void InferStream::Take(const grpc::ByteBuffer& bytes, door::ByteBudget::Charge charge) {
  inference::ModelInferRequest message;
  const absl::Status done = door::WithinMemory([&]() -> absl::Status {
    TUTTI_RETURN_IF_ERROR(service_.calls->CheckStays());
    TUTTI_RETURN_IF_ERROR(door::ParseMessage(bytes, &message));
    return Begin(message, std::move(charge));
  });
  if (!done.ok()) Refuse(message, done);
  const auto length = static_cast<int64_t>(bytes.Length());
  // The same as at the door.
  const Duration pause = absl::IsInvalidArgument(done)
                             ? door::PauseAfterRefusal(credit_.get(), length, clock_.Now())
                             : Duration::zero();
  if (pause <= Duration::zero()) return OnPauseOver();
  const MutexLock lock(&mutex_);
  door::SetAlarm(&pause_, pause, shared_from_this(), &InferStream::OnPauseOver);
}

void InferStream::OnPauseOver() {
  Next next;
  {
    const MutexLock lock(&mutex_);
    taking_ = false;
    FillLocked(&next);
  }
  Do(next);
}

InferStream::Asked InferStream::Ask(const InferRequest& request) {
  auto asked =
      std::make_shared<InferAsked>(request, caller_.tenant, service_.counts, service_.calls->door(),
                                   [weak = weak_from_this()](const Asked& more, int64_t bytes) {
                                     if (const auto stream = weak.lock())
                                       stream->OnMore(more, bytes);
                                   });
  const MutexLock lock(&mutex_);
  if (!end_) asked_.insert(asked);
  return asked;
}

absl::Status InferStream::Begin(const inference::ModelInferRequest& message,
                                door::ByteBudget::Charge charge) {
  const auto model = service_.upstream->model();
  TUTTI_ASSIGN_OR_RETURN(InferRequest request,
                         ReadInferRequest(message, /*in_stream=*/true, model->model.vocab_size()));
  const Asked asked = Ask(request);
  const auto cancel = BeginInfer("inference.GRPCInferenceService/ModelStreamInfer",
                                 std::move(request), caller_, service_.forwarder, asked);
  if (!cancel.ok()) {
    asked->Finish(cancel.status());
  } else if (!asked->Attach(std::move(charge), *cancel)) {
    (*cancel)();
  }
  // The caller may have left before there was anything to end.
  bool left = false;
  {
    const MutexLock lock(&mutex_);
    left = end_.has_value();
  }
  if (left) asked->Leave();
  return absl::OkStatus();
}

void InferStream::Refuse(const inference::ModelInferRequest& message, const absl::Status& why) {
  InferRequest request;
  request.id = Shortened(message.id(), door::kRequestIdBytesMax);
  request.model = Shortened(message.model_name(), door::kRequestIdBytesMax);
  request.call.set_n(1);
  Ask(request)->Finish(why);
}

void InferStream::OnMore(const Asked& asked, int64_t bytes) {
  Next next;
  {
    const MutexLock lock(&mutex_);
    if (end_ || !asked_.contains(asked)) return;
    unread_bytes_ += bytes;
    if (std::find(ready_.begin(), ready_.end(), asked) == ready_.end()) ready_.push_back(asked);
    const int64_t most = service_.calls->door()->options.unread_bytes;
    if (writing_ && (asked->HasMoreThan(most) || !unread_->CountPieces(unread_bytes_))) {
      EndLocked(door::TooMuchUnread(unread_bytes_, most), &next);
      door::SetAlarm(&linger_, service_.calls->door()->options.unread_linger, shared_from_this(),
                     &InferStream::OnLinger);
    }
    FillLocked(&next);
  }
  Do(next);
}

void InferStream::OnWriteDone(bool ok) {
  Next next;
  {
    const MutexLock lock(&mutex_);
    writing_ = false;
    current_.Clear();
    if (!ok) messages_.clear();  // the client is gone; OnCancel says so
    FillLocked(&next);
  }
  Do(next);
}

void InferStream::OnCancel() { End(absl::CancelledError("the client left")); }

void InferStream::OnLinger() {
  {
    const MutexLock lock(&mutex_);
    if (!writing_) return;
    resetting_ = true;  // the call is not finished meanwhile
  }
  context_->TryCancel();  // may call back
  Next next;
  {
    const MutexLock lock(&mutex_);
    resetting_ = false;
    FillLocked(&next);
  }
  Do(next);
}

void InferStream::EndLocked(absl::Status status, Next* next) {
  if (end_) return;
  end_ = std::move(status);
  next->unwanted.assign(asked_.begin(), asked_.end());
  asked_.clear();
  ready_.clear();
  messages_.clear();
}

void InferStream::FillLocked(Next* next) {
  if (finished_ || resetting_ || !unread_) return;  // over, or not started yet
  while (!writing_ && messages_.empty() && !ready_.empty()) {
    const Asked asked = std::move(ready_.front());
    ready_.pop_front();
    InferAsked::Said said = asked->Take();
    unread_bytes_ -= said.bytes;
    for (grpc::ByteBuffer& message : said.messages) messages_.push_back(std::move(message));
    if (!said.is_over) continue;
    asked_.erase(asked);
    next->unwanted.push_back(asked);
  }
  if (!writing_ && !messages_.empty()) {
    current_ = std::move(messages_.front());
    messages_.pop_front();
    writing_ = next->write = true;
  }
  if (!writing_ && ready_.empty()) unread_->Clear();
  if (!end_ && !taking_ && asked_.empty() && messages_.empty() && !writing_) {
    if (half_closed_) {
      end_ = absl::OkStatus();  // all is answered, also while this gateway ends
    } else if (draining_) {
      end_ = service_.calls->CheckStays();
    }
  }
  if (end_ && !writing_ && starting_reads_ == 0) {
    finished_ = true;
    next->finish = *end_;
    return;
  }
  // A message that is refused takes a place among the requests until its answer is written.
  if (end_ || half_closed_ || draining_ || reading_ || taking_) return;
  if (asked_.size() >= kStreamRequestsMax) return;
  reading_ = next->read = true;
  ++starting_reads_;
}

}  // namespace tutti::gateway
