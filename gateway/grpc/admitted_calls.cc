#include "gateway/grpc/admitted_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gateway/limits.h"

namespace tutti::gateway {

using door::ReceivedRequest;

int64_t AdmittedCalls::under_way() {
  const MutexLock lock(&mutex_);
  std::erase_if(calls_, [](const auto& call) { return call.expired(); });
  return static_cast<int64_t>(calls_.size());
}

void AdmittedCalls::Count(const std::shared_ptr<const void>& call) {
  ++begun_;
  const MutexLock lock(&mutex_);
  // Twice as many as are alive, at most: looked at seldom.
  if (calls_.size() == calls_.capacity()) {
    std::erase_if(calls_, [](const auto& other) { return other.expired(); });
    calls_.reserve(2 * calls_.size() + 16);
  }
  calls_.push_back(call);
}

absl::Status AdmittedCalls::CheckStays() const {
  return draining_ ? absl::UnavailableError("this gateway is about to end") : absl::OkStatus();
}

absl::StatusOr<GrpcCaller> AdmittedCalls::Admit(const grpc::CallbackServerContext& context) const {
  auto caller = AdmitCall(*rules_, context);
  TUTTI_RETURN_IF_ERROR(CheckStays());
  return caller;
}

bool AdmittedCalls::RunFor(const GrpcCaller& caller, int64_t bytes, std::function<void()> work) {
  if (bytes <= static_cast<int64_t>(kInlineBodyBytesMax)) {
    work();
    return true;
  }
  return upstream_->Run(LaneToRead(bytes), caller.owner(), bytes, std::move(work));
}

AdmittedCalls::Call::Reactor* AdmittedCalls::Start(grpc::CallbackServerContext* context,
                                                   std::shared_ptr<Call> call, bool blocks,
                                                   Work work) {
  Count(call);
  auto caller = Admit(*context);
  const absl::Status refused = caller.status();
  const auto run = [this, call, work = std::move(work), caller] {
    std::optional<ReceivedRequest> received = call->TakeRequest();
    if (!received || call->ended()) return;
    if (const absl::Status stays = CheckStays(); !stays.ok()) return call->End(stays);
    const auto bytes = static_cast<int64_t>(received->bytes.Length());
    const absl::Status done =
        door::WithinMemory([&] { return work(*std::move(received), *caller); });
    if (absl::IsInvalidArgument(done)) return call->Refuse(done, bytes, clock_.Now());
    if (!done.ok()) call->End(done);
  };
  auto* const reactor = call->Start(
      context, door_,
      [this, call, blocks, caller, run] {
        if (!caller.ok()) return;  // has its end
        const int64_t bytes = call->request_bytes();
        const bool runs = blocks ? upstream_->Run(LaneToAsk(bytes), caller->owner(), bytes, run)
                                 : RunFor(*caller, bytes, run);
        if (!runs) call->End(door::Overloaded("too many requests wait to be read"));
      },
      refused.ok() ? caller->owner() : std::string());
  if (!refused.ok()) call->End(refused);
  return reactor;
}

AdmittedCalls::Call::Reactor* AdmittedCalls::RefuseCall(grpc::CallbackServerContext* context,
                                                        absl::Status why) {
  return Start(context, std::make_shared<door::UnaryCall>(), /*blocks=*/false,
               [why = std::move(why)](const auto&, const auto&) { return why; });
}

}  // namespace tutti::gateway
