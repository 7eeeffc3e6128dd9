// One call of the public API: reads its one request message in bounded time and memory, and ends
// once.
//
// gRPC would read the request of a unary or server-streaming method before it tells anybody of the
// call, without a bound on time or on what all of them hold. So our methods are registered as if
// both sides streamed, which is the same on the wire, and read the message here.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "door/door.h"
#include "door/grpc/error_details.h"
#include "transport/credit_book.h"

namespace tutti::door {

// The name under which a call is counted, as far as is known before its message is read: the
// client's connection by its address and port. Clients of one Unix socket are one.
std::string ClientOf(const grpc::ServerContextBase& context);

// The time until a call's deadline, at least zero; nothing where it has none, or one further away
// than anybody waits, such as a time of 285 years that stands for none and is beyond system_clock.
std::optional<Duration> TimeLeftOf(const grpc::CallbackServerContext& context);

// The tenants that a call's metadata names, and the accounts.
std::vector<std::string> TenantsOf(const grpc::CallbackServerContext& context);
std::vector<std::string> AccountsOf(const grpc::CallbackServerContext& context);
// The bytes on its connection that a whole request accounts for.
int64_t CreditOf(int64_t header_bytes, int64_t message_bytes);
// The bytes of a message, for methods that speak raw bytes.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

// A request message with the bytes charged for it.
struct ReceivedRequest {
  ByteBudget::Charge charge;  // given back after the bytes
  grpc::ByteBuffer bytes;
};

// Shared by gRPC's reactor and whoever works on the call; outlives the reactor.  Thread: any.
class ClientCall : public std::enable_shared_from_this<ClientCall> {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;
  // The request has come: TakeRequest has it. Runs on a thread of gRPC's, at most once.
  using OnRequest = std::function<void()>;

  virtual ~ClientCall() = default;

  // Begins to read. The result frees itself when gRPC is done with the call.
  // `owner`: to whom its bytes are counted; empty: its connection (ClientOf).
  // REQUIRES: called once; `context` is the call's; `door` outlives the call.
  Reactor* Start(grpc::CallbackServerContext* context, Door* door, OnRequest on_request,
                 std::string owner = {});
  // Many share the call's connection, and who has it open is one of ours: it is not judged by what
  // becomes of one call's bytes (transport/connection_watch.h).  REQUIRES: started
  void TrustConnection() { credit_->Trust(); }

  // Nothing when the client has left: its bytes are gone.
  std::optional<ReceivedRequest> TakeRequest();
  const std::string& client() const { return client_; }
  // The size of the request message that has come.
  int64_t request_bytes() const;

  // Ends the call with a status once everything written was read. The first end wins.
  virtual void End(absl::Status status) = 0;
  // Ends a call whose message of so many bytes asks for nothing that can be done, after its pause
  // (refusal_pause.h).
  void Refuse(absl::Status status, int64_t bytes, Instant now);
  // No answer is wanted any more: the client left, or the call has its end.
  virtual bool ended() const = 0;

 protected:
  // A reaction of gRPC's reactor.
  virtual void OnWriteDone(bool ok) = 0;
  virtual void OnCancel() = 0;

  // Each at most once, or one at a time, as gRPC has it.  REQUIRES: the call is not finished.
  void StartWrite(const grpc::ByteBuffer* bytes);
  void FinishCall(const absl::Status& status);
  // Ends the call as if the client had left.  REQUIRES: the call is not finished.
  void Reset() { context_->TryCancel(); }
  // Frees the request that nobody has taken.
  void DropRequest();
  Door* door() const { return door_; }

 private:
  class ReactorOfCall;
  void OnReadDone(bool ok);
  void OnSlow();
  void OnTooSlow();
  void OnRefusalDue();

  // Valid until the call is finished.
  Reactor* reactor_ = nullptr;
  grpc::CallbackServerContext* context_ = nullptr;
  Door* door_ = nullptr;
  std::string client_;
  std::shared_ptr<transport::ConnectionCredit> credit_;
  int64_t header_bytes_ = 0;
  OnRequest on_request_;
  grpc::ByteBuffer message_;  // gRPC's while the read is outstanding

  mutable Mutex read_mutex_;
  bool reading_ ABSL_GUARDED_BY(read_mutex_) = true;
  grpc::Alarm slow_ ABSL_GUARDED_BY(read_mutex_);
  grpc::Alarm too_slow_ ABSL_GUARDED_BY(read_mutex_);
  ByteBudget::Charge charge_ ABSL_GUARDED_BY(read_mutex_);  // of a slow message
  std::optional<ReceivedRequest> received_ ABSL_GUARDED_BY(read_mutex_);
  grpc::Alarm refusal_due_ ABSL_GUARDED_BY(read_mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(read_mutex_);
};

// Runs `then` after `delay` unless `alarm` is set again, cancelled or destroyed before, or `call`
// is gone by then. What has fired by then may still run: `then` looks whether it is due.
template <typename Call>
void SetAlarm(grpc::Alarm* alarm, Duration delay, const std::shared_ptr<Call>& call,
              void (Call::*then)()) {
  const auto at =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(delay.count(), GPR_TIMESPAN));
  // A new one: the old may have fired, and would call what it is given now. By assignment it would
  // never be freed; and making one may run out of memory, when there must still be the old.
  grpc::Alarm fresh;
  std::destroy_at(alarm);
  std::construct_at(alarm, std::move(fresh));
  // Not a shared pointer: the alarm is the call's own and would keep it.
  alarm->Set(at, [weak = std::weak_ptr<Call>(call), then](bool fired) {
    const std::shared_ptr<Call> still = fired ? weak.lock() : nullptr;
    if (still != nullptr) ((*still).*then)();
  });
}

// A call with one answer. An answer that is not read within the door's read_grace counts against
// the client's bytes from then on, and its call is reset after read_max, or at once where the
// client may not have so many.
class UnaryCall : public ClientCall {
 public:
  // Answers, unless the call has ended.
  void Reply(const google::protobuf::MessageLite& message);
  void End(absl::Status status) override;
  bool ended() const override;

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  bool TakeEnd();
  void OnUnread();
  void GiveUp();

  mutable Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool resetting_ ABSL_GUARDED_BY(mutex_) = false;  // the call is not finished meanwhile
  grpc::Alarm unread_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm give_up_ ABSL_GUARDED_BY(mutex_);
  int64_t response_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  ByteBudget::Charge charge_ ABSL_GUARDED_BY(mutex_);  // of an answer that nobody reads
  grpc::ByteBuffer response_;                          // gRPC's while it is written
};

}  // namespace tutti::door
