// A call of ModelStreamInfer: many requests on one stream, whose answers are written as they come.
//
// A request that fails, or comes when there is no room for it, is told so by a message, and the
// stream goes on. The stream ends when its
// caller has sent the last request and has all answers, or leaves too much of them unread; when it
// leaves, its requests end.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "door/grpc/client_call.h"
#include "door/unread_output.h"
#include "gateway/grpc/admitted_calls.h"
#include "gateway/grpc/forwarder.h"
#include "gateway/kserve/grpc/infer_asked.h"

namespace tutti::gateway {

// The state that the streams share; outlives them.
struct InferService {
  AdmittedCalls* calls = nullptr;
  Forwarder* forwarder = nullptr;
  Upstream* upstream = nullptr;
  InferCounts* counts = nullptr;
};

// Thread: any.
class InferStream : public std::enable_shared_from_this<InferStream> {
 public:
  using Reactor = door::ClientCall::Reactor;

  explicit InferStream(const InferService& service) : service_(service) {}

  // Begins to read, or ends the call with why its caller is not let in. The result frees itself.
  // REQUIRES: called once
  Reactor* Start(grpc::CallbackServerContext* context, absl::StatusOr<GrpcCaller> caller);
  // No other request is read; the stream ends with those that are under way.
  void Drain();

 private:
  class ReactorOfStream;
  using Asked = std::shared_ptr<InferAsked>;
  // The calls to make once the lock is released: gRPC may call back inside.
  struct Next {
    bool read = false, write = false;
    std::optional<absl::Status> finish;
    std::vector<Asked> unwanted;
  };

  void OnReadDone(bool ok);
  void OnWriteDone(bool ok);
  void OnCancel();
  void OnLinger();
  void OnPauseOver();

  // Looks at one message of the caller's; the next is read when it is done with.
  void Take(const grpc::ByteBuffer& bytes, door::ByteBudget::Charge charge);
  // A request that begins now.
  Asked Ask(const InferRequest& request);
  absl::Status Begin(const inference::ModelInferRequest& message, door::ByteBudget::Charge charge);
  // Ends a request that the service never sees, whose names are those of `message`.
  void Refuse(const inference::ModelInferRequest& message, const absl::Status& why);
  void OnMore(const Asked& asked, int64_t bytes);

  void End(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndLocked(absl::Status status, Next* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillLocked(Next* next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Next& next) ABSL_LOCKS_EXCLUDED(mutex_);

  const InferService service_;
  const SystemClock clock_{};
  GrpcCaller caller_;
  std::string client_;
  std::shared_ptr<transport::ConnectionCredit> credit_;
  // Valid until the call is finished.
  Reactor* reactor_ = nullptr;
  grpc::CallbackServerContext* context_ = nullptr;
  grpc::ByteBuffer read_, current_;  // gRPC's while they are read and written

  Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  // Calls of StartRead that have not returned: the next read may begin inside one. The call is not
  // finished meanwhile.
  int starting_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool taking_ ABSL_GUARDED_BY(mutex_) = false;  // a message is looked at, or paused for
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool resetting_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  // Requests whose last message is not among `messages_` yet, and those with something to say.
  std::set<Asked> asked_ ABSL_GUARDED_BY(mutex_);
  std::deque<Asked> ready_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::ByteBuffer> messages_ ABSL_GUARDED_BY(mutex_);
  int64_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<door::UnreadOutput> unread_ ABSL_GUARDED_BY(mutex_);  // since Start
  grpc::Alarm linger_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm pause_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::gateway
