// The calls of the gateway's gRPC port, of all its services: who calls is admitted, what it sends
// is read under the bounds of the door, and looked at by a thread that may take so long.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "door/door.h"
#include "door/grpc/client_call.h"
#include "door/grpc/message_parser.h"
#include "gateway/door_rules.h"
#include "gateway/grpc/grpc_caller.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

// Thread: any.
class AdmittedCalls {
 public:
  using Call = door::ClientCall;
  // Does what a call asks for. An error ends it.
  using Work = std::function<absl::Status(door::ReceivedRequest, const GrpcCaller&)>;
  // The answer to a request of a kind, or why there is none.
  template <typename Request, typename Response>
  using Answer = std::function<absl::StatusOr<Response>(const Request&, const GrpcCaller&)>;

  // REQUIRES: everything outlives the calls
  AdmittedCalls(const DoorRules* rules, Upstream* upstream, door::Door* door)
      : rules_(rules), upstream_(upstream), door_(door) {}

  // From now on calls are refused.
  void Drain() { draining_ = true; }
  // The calls that gRPC is not done with.
  int64_t under_way();
  int64_t begun() const { return begun_; }
  door::Door* door() const { return door_; }

  // Starts a call whose caller is let in; others are ended. `blocks`: `work` waits for the service.
  Call::Reactor* Start(grpc::CallbackServerContext* context, std::shared_ptr<Call> call,
                       bool blocks, Work work);
  // Starts a call with one answer, which does not wait for anything.
  template <typename Request, typename Response>
  Call::Reactor* Reply(grpc::CallbackServerContext* context, Answer<Request, Response> answer);
  // Ends a call with `why`, whatever it holds, if its caller is let in.
  Call::Reactor* RefuseCall(grpc::CallbackServerContext* context, absl::Status why);

  // Counts a call that reads by itself.
  void Count(const std::shared_ptr<const void>& call);
  // The caller, or why it is not let in. UNAVAILABLE: the gateway is about to end.
  absl::StatusOr<GrpcCaller> Admit(const grpc::CallbackServerContext& context) const;
  // UNAVAILABLE: the gateway is about to end.
  absl::Status CheckStays() const;
  // Runs `work` on a message of so many bytes of the caller's: here if it is small, else on another
  // thread; false: too many wait.
  bool RunFor(const GrpcCaller& caller, int64_t bytes, std::function<void()> work);

 private:
  const DoorRules* const rules_;
  Upstream* const upstream_;
  door::Door* const door_;
  const SystemClock clock_{};
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> begun_{0};
  Mutex mutex_;
  std::vector<std::weak_ptr<const void>> calls_ ABSL_GUARDED_BY(mutex_);
};

template <typename Request, typename Response>
AdmittedCalls::Call::Reactor* AdmittedCalls::Reply(grpc::CallbackServerContext* context,
                                                   Answer<Request, Response> answer) {
  auto call = std::make_shared<door::UnaryCall>();
  return Start(context, call, /*blocks=*/false,
               [call, answer = std::move(answer)](const door::ReceivedRequest& received,
                                                  const GrpcCaller& caller) -> absl::Status {
                 Request request;
                 TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &request));
                 TUTTI_ASSIGN_OR_RETURN(const Response response, answer(request, caller));
                 call->Reply(response);
                 return absl::OkStatus();
               });
}

}  // namespace tutti::gateway
