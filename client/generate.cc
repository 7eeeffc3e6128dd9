// Client::Generate and Client::Start: one answer over as many calls as it takes.
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "client/call_scope.h"
#include "client/client.h"
#include "client/endpoints.h"
#include "client/first_waits.h"
#include "client/request_size.h"
#include "client/resuming_answer.h"

namespace tutti::client {
namespace {

uint64_t RandomNumber() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

Instant Now() { return std::chrono::steady_clock::now(); }

std::optional<Duration> Left(Instant deadline) {
  if (deadline == kInstantNever) return std::nullopt;
  return std::max<Duration>(deadline - Now(), Duration::zero());
}

Instant DeadlineOf(std::optional<Duration> timeout) {
  return timeout ? Now() + *timeout : kInstantNever;
}

// One stream of an answer that a thread waits for.
ResumingAnswer::End ReadStream(const Endpoint& endpoint, const Client::OnMessage& on_message,
                               Instant deadline, CancelToken* token, ResumingAnswer* answer) {
  // What goes on has grown by what came.
  const absl::Status fits = CheckRequestSize(answer->request());
  if (!fits.ok()) return {.status = fits, .pause = {}};
  grpc::ClientContext context;
  SetDeadline(Left(deadline), &context);
  endpoint.Authorize(&context);
  const CancelScope cancel(token, &context);
  auto reader = endpoint.stub->Generate(&context, answer->request());
  absl::Status broken;
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    broken = answer->Check(&message);
    if (broken.ok()) broken = on_message(message);
    if (!broken.ok()) {
      context.TryCancel();
      break;
    }
    answer->Take(message);
  }
  // Finish waits for the stream's end, so the messages still under way have to be read first.
  while (!broken.ok() && reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  if (!broken.ok()) return {.status = broken, .pause = {}};
  const absl::Status end = endpoint.ToStatus(status, context);
  if (!end.ok() && token != nullptr && token->cancelled()) {
    return {.status = absl::CancelledError("the call was cancelled"), .pause = {}};
  }
  return answer->OnStreamEnd(end, IsMadeUp(status), Now());
}

}  // namespace

absl::StatusOr<std::vector<v1::Finish>> Client::Generate(const v1::GenerateRequest& request,
                                                         const CallOptions& options,
                                                         const OnMessage& on_message) {
  ResumingAnswer answer(request, {.within = options_.resume_within,
                                  .addresses = endpoints_->size(),
                                  .random = RandomNumber(),
                                  .allow_inexact = options_.allow_inexact});
  const Instant deadline = DeadlineOf(options.timeout);
  CancelToken never;
  CancelToken* const cancel = options.cancel != nullptr ? options.cancel : &never;
  while (true) {
    const Endpoint& endpoint = endpoints_->preferred();
    const ResumingAnswer::End end =
        ReadStream(endpoint, on_message, deadline, options.cancel, &answer);
    if (!end.pause.has_value()) {
      TUTTI_RETURN_IF_ERROR(end.status);
      return answer.ReleaseFinishes();
    }
    if (cancel->WaitUntil(std::min(Now() + *end.pause, deadline))) {
      return absl::CancelledError("cancelled between two tries to go on with the answer");
    }
    endpoints_->OnFailed(endpoint);
    endpoints_->preferred().Reconnect();
  }
}

// Lives until gRPC is done with its last stream and the caller has let go of its GenerateCall.
class Client::Call : public std::enable_shared_from_this<Client::Call> {
 public:
  Call(const Client* client, v1::GenerateRequest request, std::optional<Duration> timeout,
       GenerateObserver* observer, CallMetadata metadata)
      : client_(client),
        observer_(observer),
        deadline_(DeadlineOf(timeout)),
        metadata_(std::move(metadata)),
        answer_(std::move(request), {.within = client->options_.resume_within,
                                     .addresses = client->endpoints_->size(),
                                     .random = RandomNumber(),
                                     .allow_inexact = client->options_.allow_inexact,
                                     .began = Now(),
                                     .served = client->endpoints_->ServedWithin(
                                         client->options_.resume_within, Now())}) {}

  void BeginStream();

  void Cancel() {
    const MutexLock lock(&mutex_);
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
    if (pause_ != nullptr) pause_->Cancel();
  }

 private:
  class Stream;

  void OnStreamEnd(const Endpoint& endpoint, const absl::Status& broken, const grpc::Status& status,
                   const grpc::ClientContext& context) {
    bool cancelled = false;
    {
      const MutexLock lock(&mutex_);
      context_ = nullptr;
      cancelled = cancelled_;
    }
    if (!broken.ok()) return End(broken);
    const absl::Status end = endpoint.ToStatus(status, context);
    if (!end.ok() && cancelled) return End(end);
    const ResumingAnswer::End next = answer_.OnStreamEnd(end, IsMadeUp(status), Now());
    if (!next.pause.has_value()) return End(next.status);
    if (answer_.waits_for_service() && !BeginWait()) return End(end);
    client_->endpoints_->OnFailed(endpoint);
    const auto pause = std::chrono::duration_cast<std::chrono::microseconds>(*next.pause);
    const MutexLock lock(&mutex_);
    paused_ = shared_from_this();
    // Another for each pause: the last one's call may not have returned yet.
    pause_ = std::make_unique<grpc::Alarm>();
    pause_->Set(std::chrono::system_clock::now() + (cancelled_ ? pause.zero() : pause),
                [this](bool) { OnPauseEnd(); });
  }

  // The last that is done with the client: the observer may let it go.
  void End(const absl::Status& status) {
    EndWait();
    observer_->OnEnd(status);
  }

  // On a thread of gRPC's: whoever begins a call holds what its observer needs.
  void EndSoon(const absl::Status& status) {
    const MutexLock lock(&mutex_);
    paused_ = shared_from_this();
    pause_ = std::make_unique<grpc::Alarm>();
    pause_->Set(std::chrono::system_clock::now(), [this, status](bool) {
      std::shared_ptr<Call> self;
      {
        const MutexLock taken(&mutex_);
        self = std::move(paused_);
      }
      End(status);
    });
  }

  bool BeginWait() {
    if (waits_) return true;
    request_bytes_ = static_cast<int64_t>(answer_.request().ByteSizeLong());
    return waits_ = client_->first_waits_->Begin(request_bytes_);
  }
  void EndWait() {
    if (std::exchange(waits_, false)) client_->first_waits_->End(request_bytes_);
  }

  void OnPauseEnd() {
    std::shared_ptr<Call> self;
    {
      const MutexLock lock(&mutex_);
      self = std::move(paused_);
    }
    client_->endpoints_->preferred().Reconnect();
    BeginStream();
  }

  const Client* const client_;
  GenerateObserver* const observer_;
  const Instant deadline_;
  const CallMetadata metadata_;
  // Owned by the stream or pause under way, and by whoever ends the call.
  ResumingAnswer answer_;
  bool waits_ = false;  // for a service that is not there, with a request of so many bytes
  int64_t request_bytes_ = 0;
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the stream under way
  std::unique_ptr<grpc::Alarm> pause_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Call> paused_ ABSL_GUARDED_BY(mutex_);  // itself, during a pause
};

// One stream; frees itself when gRPC is done with it.
class Client::Call::Stream : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Stream(std::shared_ptr<Call> call, const Endpoint& endpoint)
      : call_(std::move(call)), endpoint_(endpoint) {}

  grpc::ClientContext* context() { return &context_; }
  void Begin() {
    SetDeadline(Left(call_->deadline_), &context_);
    endpoint_.Authorize(&context_);
    const CallMetadata& told = call_->metadata_;
    if (!told.traceparent.empty()) context_.AddMetadata("traceparent", told.traceparent);
    if (!told.account.empty()) context_.AddMetadata("x-tutti-account", told.account);
    endpoint_.stub->async()->Generate(&context_, &call_->answer_.request(), this);
    StartRead(&message_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    call_->client_->endpoints_->OnServed(Now());
    call_->EndWait();
    // A caller that has no memory for it loses this answer only.
    try {
      if (broken_.ok()) broken_ = call_->answer_.Check(&message_);
      if (broken_.ok()) {
        call_->observer_->OnMessage(message_);
        call_->answer_.Take(message_);
      }
    } catch (const std::bad_alloc&) {
      broken_ = absl::ResourceExhaustedError("there is no memory left for this answer");
    }
    if (!broken_.ok()) context_.TryCancel();
    StartRead(&message_);
  }
  void OnDone(const grpc::Status& status) override {
    const std::unique_ptr<Stream> self(this);
    call_->OnStreamEnd(endpoint_, broken_, status, context_);
  }

 private:
  const std::shared_ptr<Call> call_;
  const Endpoint& endpoint_;
  grpc::ClientContext context_;
  v1::GenerateResponse message_;
  absl::Status broken_;
};

void Client::Call::BeginStream() {
  if (const absl::Status fits = CheckRequestSize(answer_.request()); !fits.ok()) {
    return EndSoon(fits);
  }
  auto* const stream = new Stream(shared_from_this(), client_->endpoints_->preferred());
  {
    const MutexLock lock(&mutex_);
    context_ = stream->context();
    if (cancelled_) context_->TryCancel();
  }
  stream->Begin();
}

std::unique_ptr<GenerateCall> Client::Start(v1::GenerateRequest request,
                                            std::optional<Duration> timeout,
                                            GenerateObserver* observer, CallMetadata metadata) {
  class Handle : public GenerateCall {
   public:
    explicit Handle(std::shared_ptr<Call> call) : call_(std::move(call)) {}
    void Cancel() override { call_->Cancel(); }

   private:
    const std::shared_ptr<Call> call_;
  };
  auto call =
      std::make_shared<Call>(this, std::move(request), timeout, observer, std::move(metadata));
  call->BeginStream();
  return std::make_unique<Handle>(std::move(call));
}

}  // namespace tutti::client
