#include "gateway/grpc/forwarder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "door/limits.h"
#include "gateway/api_error.h"
#include "gateway/caller_rules.h"
#include "gateway/limits.h"
#include "gateway/service/caller.h"
#include "gateway/service/request_trace.h"

namespace tutti::gateway {
namespace {

// Tells the traffic of one request, in order, on the loop.
class Watched : public std::enable_shared_from_this<Watched> {
 public:
  Watched(PostToLoop post, Traffic* traffic) : post_(std::move(post)), traffic_(traffic) {}

  void Begin(Traffic::Request request) {
    post_([self = shared_from_this(), request = std::move(request)]() mutable {
      self->number_ = self->traffic_->Begin(std::move(request));
    });
  }
  void OnMessage(const v1::GenerateResponse& message) {
    const int64_t prompt = message.has_started() ? message.started().prompt_tokens() : 0;
    post_([self = shared_from_this(), prompt, output = message.output(),
           tokens = message.tokens_size()] {
      if (prompt > 0) self->traffic_->OnPrompt(self->number_, prompt);
      self->traffic_->OnTokens(self->number_, 0, output, tokens);
    });
  }
  void End(Traffic::End end) {
    post_([self = shared_from_this(), end] { self->traffic_->OnEnd(self->number_, end); });
  }

 private:
  const PostToLoop post_;
  Traffic* const traffic_;
  uint64_t number_ = 0;  // the loop's
};

const char* KindOf(const v1::GenerateRequest& request) {
  return request.has_chat() ? "chat" : "text";
}

}  // namespace

// One request under way. Keeps itself until the service is done with it.
class Forwarder::Call : public client::GenerateObserver,
                        public std::enable_shared_from_this<Forwarder::Call> {
 public:
  Call(Upstream* upstream, std::shared_ptr<Watched> watched, std::shared_ptr<door::OutputStream> to,
       RequestTrace trace, std::string account)
      : upstream_(upstream),
        account_(std::move(account)),
        watched_(std::move(watched)),
        to_(std::move(to)),
        trace_(std::move(trace)) {}

  void Start(v1::GenerateRequest request, std::optional<Duration> timeout) {
    self_ = shared_from_this();
    const std::string model =
        request.model().empty() ? upstream_->model()->model.name() : request.model();
    client::CallMetadata metadata = {
        .traceparent = trace_.BeginCall(request, KindOf(request), model), .account = account_};
    std::shared_ptr<client::GenerateCall> call =
        upstream_->client()->Start(std::move(request), timeout, this, std::move(metadata));
    {
      const MutexLock lock(&mutex_);
      call_ = call;
      if (!cancelled_) return;
    }
    call->Cancel();
  }
  void Cancel() {
    std::shared_ptr<client::GenerateCall> call;
    {
      const MutexLock lock(&mutex_);
      cancelled_ = true;
      call = call_;
    }
    if (call != nullptr) call->Cancel();
  }
  void End(const absl::Status& why) {
    to_->Finish(why);
    Cancel();
  }

  void OnMessage(const v1::GenerateResponse& message) override {
    watched_->OnMessage(message);
    trace_.OnMessage(0, message);
    to_->Write(message);
  }
  void OnEnd(absl::Status status) override {
    const std::shared_ptr<Call> self = std::move(self_);
    const bool cancelled = [this] {
      const MutexLock lock(&mutex_);
      return cancelled_;
    }();
    watched_->End(status.ok() ? Traffic::End::kFinished
                  : cancelled ? Traffic::End::kCancelled
                              : Traffic::End::kFailed);
    // A service that ends its calls says so; the caller is still there.
    if (absl::IsCancelled(status) && !cancelled) {
      status = absl::UnavailableError("the service ended the call");
    }
    trace_.EndCall(0, status);
    to_->Finish(WithoutAddress(status));
    // The last: nothing behind it is used by then.
    --upstream_->calls;
  }

 private:
  Upstream* const upstream_;
  const std::string account_;  // that the service is told
  const std::shared_ptr<Watched> watched_;
  const std::shared_ptr<door::OutputStream> to_;
  RequestTrace trace_;
  std::shared_ptr<Call> self_;
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<client::GenerateCall> call_ ABSL_GUARDED_BY(mutex_);
};

Forwarder::Forwarder(Upstream* upstream, PostToLoop post, Traffic* traffic,
                     metrics::SpanWriter* spans)
    : upstream_(upstream), post_(std::move(post)), traffic_(traffic), spans_(spans) {}

absl::StatusOr<Forwarder::Cancel> Forwarder::Begin(std::string_view method,
                                                   v1::GenerateRequest request,
                                                   const GrpcCaller& caller,
                                                   std::shared_ptr<door::OutputStream> to) {
  TUTTI_RETURN_IF_ERROR(CheckTenant(request.tenant(), caller.tenants, caller.tenant));
  TUTTI_RETURN_IF_ERROR(CheckPriority(request.priority()));
  // Our client of the service takes memory for each before the service is asked.
  if (request.n() > door::kOutputsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("n is ", request.n(), ", the limit is ", door::kOutputsMax));
  }
  const std::string name = request.request_id();
  request.set_request_id(NameForService(name, caller.tenant, caller.host));
  const bool named = upstream_->model()->may_name_tenants;
  SetTenant(caller.tenant, named, &request);
  const auto watched = std::make_shared<Watched>(post_, traffic_);
  const auto call = std::make_shared<Call>(upstream_, watched, std::move(to),
                                           RequestTrace(spans_, method, caller.traceparent),
                                           AccountForService(caller.tenant, caller.owner(), named));
  {
    const MutexLock lock(&mutex_);
    if (upstream_->calls >= kCallsMax) {
      return absl::UnavailableError("too many requests are under way");
    }
    ++upstream_->calls;
    std::erase_if(calls_, [](const auto& other) { return other.expired(); });
    calls_.push_back(call);
  }
  const std::string shown = name.substr(0, door::kRequestIdBytesMax);
  watched->Begin({.name = name.empty() ? RandomName() : shown,
                  .kind = KindOf(request),
                  .tenant = caller.tenant,
                  .stream = true,
                  .outputs = std::max(request.n(), 1u)});
  call->Start(std::move(request), caller.TimeLeft());
  // The stream keeps this for longer than the call lives, which keeps the stream.
  return Cancel([weak = std::weak_ptr<Call>(call)] {
    if (const auto still = weak.lock()) still->Cancel();
  });
}

void Forwarder::EndAll(const absl::Status& why) {
  std::vector<std::weak_ptr<Call>> calls;
  {
    const MutexLock lock(&mutex_);
    calls.swap(calls_);
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->End(why);
  }
}

}  // namespace tutti::gateway
