// Requests for generated text on their way to the service: one kind of request for all front ends
// that speak gRPC, and one kind of stream that gets its answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "door/output_stream.h"
#include "gateway/grpc/grpc_caller.h"
#include "gateway/service/traffic.h"
#include "gateway/service/upstream.h"
#include "metrics/span_writer.h"

namespace tutti::gateway {

// Runs a job on the loop of the HTTP server, soon.
using PostToLoop = std::function<void(std::function<void()>)>;

// Thread: any.
class Forwarder {
 public:
  using Cancel = std::function<void()>;

  // `traffic` is told of requests, on the loop. `spans`: null: nothing is traced.
  // REQUIRES: all outlive the forwarder
  Forwarder(Upstream* upstream, PostToLoop post, Traffic* traffic, metrics::SpanWriter* spans);

  // Begins what `caller` asks for by `method` ("package.Service/Method"); `to` gets the answer,
  // which goes on over a lost coordinator by itself, and its end. The result ends the call early:
  // `to` is not read any more.
  //
  // PERMISSION_DENIED: the caller may not say so. UNAVAILABLE: too much is under way, or the
  // gateway is about to end. INVALID_ARGUMENT: more outputs than anybody serves.
  absl::StatusOr<Cancel> Begin(std::string_view method, v1::GenerateRequest request,
                               const GrpcCaller& caller, std::shared_ptr<door::OutputStream> to);

  // Ends what is under way with `why`.
  void EndAll(const absl::Status& why);

 private:
  class Call;

  Upstream* const upstream_;
  const PostToLoop post_;
  Traffic* const traffic_;
  metrics::SpanWriter* const spans_;
  Mutex mutex_;
  std::vector<std::weak_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tutti::gateway
