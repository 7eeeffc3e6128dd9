#include "door/grpc/client_call.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/limits.h"
#include "door/refusal_pause.h"
#include "door/tenant.h"
#include "transport/limits.h"

namespace tutti::door {

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeToArray(const_cast<uint8_t*>(slice.begin()), static_cast<int>(slice.size()));
  return grpc::ByteBuffer(&slice, 1);
}

int64_t CreditOf(int64_t header_bytes, int64_t message_bytes) {
  return message_bytes + message_bytes / transport::kCallCreditDivisor + header_bytes +
         transport::kCallCreditBytes;
}

std::optional<Duration> TimeLeftOf(const grpc::CallbackServerContext& context) {
  const gpr_timespec deadline = context.raw_deadline();
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec > static_cast<int64_t>(Seconds(kDeadlineMax))) return std::nullopt;
  const Duration time = std::chrono::seconds(std::max<int64_t>(left.tv_sec, -1)) +
                        std::chrono::nanoseconds(left.tv_nsec);
  return std::max(time, Duration::zero());
}

namespace {

std::vector<std::string> MetadataOf(const grpc::CallbackServerContext& context, const char* name) {
  std::vector<std::string> values;
  const auto [begin, end] = context.client_metadata().equal_range(name);
  for (auto at = begin; at != end; ++at) values.emplace_back(at->second.data(), at->second.size());
  return values;
}

int64_t HeaderBytesOf(const grpc::CallbackServerContext& context) {
  size_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) bytes += key.size() + value.size();
  return static_cast<int64_t>(bytes);
}

// Uniform in [0, 1). Not secret.
double DrawShare() {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>()(generator);
}

}  // namespace

std::vector<std::string> TenantsOf(const grpc::CallbackServerContext& context) {
  return MetadataOf(context, kTenantMetadata);
}
std::vector<std::string> AccountsOf(const grpc::CallbackServerContext& context) {
  return MetadataOf(context, kAccountMetadata);
}

std::string ClientOf(const grpc::ServerContextBase& context) { return context.peer(); }

class ClientCall::ReactorOfCall : public Reactor {
 public:
  explicit ReactorOfCall(std::shared_ptr<ClientCall> call) : call_(std::move(call)) {
    ++call_->door()->calls;
  }
  void OnReadDone(bool ok) override { call_->OnReadDone(ok); }
  void OnWriteDone(bool ok) override { call_->OnWriteDone(ok); }
  void OnCancel() override {
    call_->DropRequest();
    call_->OnCancel();
  }
  void OnDone() override {
    --call_->door()->calls;
    delete this;
  }

 private:
  const std::shared_ptr<ClientCall> call_;
};

ClientCall::Reactor* ClientCall::Start(grpc::CallbackServerContext* context, Door* door,
                                       OnRequest on_request, std::string owner) {
  context_ = context;
  door_ = door;
  client_ = owner.empty() ? ClientOf(*context) : std::move(owner);
  header_bytes_ = HeaderBytesOf(*context);
  credit_ = door->book.Find(context->peer());
  credit_->BeginRead();
  on_request_ = std::move(on_request);
  auto* const reactor = new ReactorOfCall(shared_from_this());
  reactor_ = reactor;
  {
    const MutexLock lock(&read_mutex_);
    SetAlarm(&slow_, door->options.read_grace, shared_from_this(), &ClientCall::OnSlow);
  }
  // Its end comes only after gRPC has the reactor.
  reactor->StartRead(&message_);
  return reactor;
}

void ClientCall::OnReadDone(bool ok) {
  OnRequest on_request = std::move(on_request_);
  // A message that comes too late for its call has come all the same.
  credit_->EndRead(ok ? CreditOf(header_bytes_, static_cast<int64_t>(message_.Length())) : 0);
  if (ended()) ok = false;
  const absl::Status taken = WithinMemory([&]() -> absl::Status {
    const MutexLock lock(&read_mutex_);
    reading_ = false;
    slow_.Cancel();
    too_slow_.Cancel();
    ByteBudget::Charge charge = std::move(charge_);
    if (!ok) return absl::InvalidArgumentError("the call ended without a request message");
    const auto bytes = static_cast<int64_t>(message_.Length());
    if (charge.bytes() > 0) {
      charge.Resize(bytes);
    } else {
      std::optional<ByteBudget::Charge> made = door_->budget.Take(client_, bytes);
      if (!made) {
        return Overloaded("the service holds as many bytes for this client as it may now");
      }
      charge = *std::move(made);
    }
    received_ = {.charge = std::move(charge), .bytes = message_};
    return absl::OkStatus();
  });
  // A ByteBuffer is never moved: this call would hold the bytes for as long as it lasts.
  message_.Clear();
  if (taken.ok()) {
    const absl::Status handed = WithinMemory([&] {
      on_request();
      return absl::OkStatus();
    });
    if (!handed.ok()) End(handed);
    return;
  }
  End(taken);
}

void ClientCall::OnSlow() {
  {
    const MutexLock lock(&read_mutex_);
    if (!reading_) return;
    std::optional<ByteBudget::Charge> charge = door_->budget.Take(client_, kRequestBytesMax);
    if (charge) {
      charge_ = *std::move(charge);
      SetAlarm(&too_slow_, door_->options.read_max - door_->options.read_grace, shared_from_this(),
               &ClientCall::OnTooSlow);
      return;
    }
  }
  End(Overloaded("too many requests arrive slowly at once"));
}

void ClientCall::OnTooSlow() {
  {
    const MutexLock lock(&read_mutex_);
    if (!reading_) return;
  }
  End(absl::DeadlineExceededError(absl::StrCat("the request message was not complete within ",
                                               Seconds(door_->options.read_max), " s")));
}

void ClientCall::Refuse(absl::Status status, int64_t bytes, Instant now) {
  const Duration pause = PauseAfterRefusal(credit_.get(), bytes, now);
  if (pause <= Duration::zero()) return End(std::move(status));
  const MutexLock lock(&read_mutex_);
  refusal_ = std::move(status);
  SetAlarm(&refusal_due_, pause, shared_from_this(), &ClientCall::OnRefusalDue);
}

void ClientCall::OnRefusalDue() {
  absl::Status refusal;
  {
    const MutexLock lock(&read_mutex_);
    refusal = refusal_;
  }
  End(std::move(refusal));
}

std::optional<ReceivedRequest> ClientCall::TakeRequest() {
  const MutexLock lock(&read_mutex_);
  return std::exchange(received_, std::nullopt);
}

int64_t ClientCall::request_bytes() const {
  const MutexLock lock(&read_mutex_);
  return received_ ? static_cast<int64_t>(received_->bytes.Length()) : 0;
}

void ClientCall::DropRequest() {
  const MutexLock lock(&read_mutex_);
  received_.reset();
}

void ClientCall::StartWrite(const grpc::ByteBuffer* bytes) { reactor_->StartWrite(bytes); }

void ClientCall::FinishCall(const absl::Status& status) {
  const std::optional<Duration> delay = JitteredDelay(status, DrawShare());
  if (delay) {
    const int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(*delay).count();
    context_->AddTrailingMetadata(kRetryAfterMetadata, absl::StrCat(ms));
  }
  if (const auto pushback = PushbackMs(status, delay)) {
    context_->AddTrailingMetadata(kPushbackMetadata, absl::StrCat(*pushback));
  }
  reactor_->Finish(ToGrpc(status, delay));
}

bool UnaryCall::TakeEnd() {
  const MutexLock lock(&mutex_);
  return !std::exchange(ended_, true);
}

bool UnaryCall::ended() const {
  const MutexLock lock(&mutex_);
  return ended_;
}

void UnaryCall::Reply(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer response = Serialize(message);
  {
    const MutexLock lock(&mutex_);
    if (std::exchange(ended_, true)) return;
    writing_ = true;
    response_bytes_ = static_cast<int64_t>(response.Length());
    response_ = std::move(response);
    SetAlarm(&unread_, door()->options.read_grace,
             std::static_pointer_cast<UnaryCall>(shared_from_this()), &UnaryCall::OnUnread);
  }
  StartWrite(&response_);
}

void UnaryCall::OnWriteDone(bool ok) {
  response_.Clear();
  ByteBudget::Charge charge;  // given back without the lock
  {
    const MutexLock lock(&mutex_);
    writing_ = false;
    unread_.Cancel();
    give_up_.Cancel();
    charge = std::move(charge_);
    if (resetting_) return;
  }
  FinishCall(ok ? absl::OkStatus() : absl::CancelledError("the client left"));
}

void UnaryCall::OnUnread() {
  {
    const MutexLock lock(&mutex_);
    if (!writing_) return;
    std::optional<ByteBudget::Charge> charge = door()->budget.Take(client(), response_bytes_);
    if (charge) {
      charge_ = *std::move(charge);
      SetAlarm(&give_up_, door()->options.read_max,
               std::static_pointer_cast<UnaryCall>(shared_from_this()), &UnaryCall::GiveUp);
      return;
    }
  }
  GiveUp();
}

void UnaryCall::GiveUp() {
  {
    const MutexLock lock(&mutex_);
    if (!writing_) return;
    resetting_ = true;
  }
  Reset();  // may call back
  {
    const MutexLock lock(&mutex_);
    resetting_ = false;
    if (writing_) return;
  }
  FinishCall(absl::CancelledError("the client did not read its answer"));
}

void UnaryCall::End(absl::Status status) {
  if (TakeEnd()) FinishCall(status);
}

void UnaryCall::OnCancel() { End(absl::CancelledError("the client left")); }

}  // namespace tutti::door
