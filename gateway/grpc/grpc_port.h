// The gateway's port for gRPC clients: tutti.v1.Inference, the protocols of KServe and of vLLM's
// routers, health checks and reflection.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "door/door.h"
#include "door/grpc/public_server.h"
#include "door/grpc/reflection_service.h"
#include "gateway/door_rules.h"
#include "gateway/grpc/admitted_calls.h"
#include "gateway/grpc/forwarder.h"
#include "gateway/grpc/front_end.h"
#include "gateway/service/traffic.h"
#include "gateway/service/upstream.h"
#include "transport/certificates.h"

namespace tutti::gateway {

struct GrpcPortOptions {
  std::string listen;       // host:port, port 0 for any free one, or unix:/path
  transport::TlsFiles tls;  // without an authority; empty: no TLS
  bool plaintext = false;   // without TLS outside addresses are served, too
  door::DoorOptions door;
  transport::ConnectionBounds bounds;  // of its connections
};

// Thread: the owner's, one call at a time, unless said otherwise.
class GrpcPort {
 public:
  // Listens. An error names what cannot be. `spans`: null: nothing is traced.
  // REQUIRES: upstream, traffic and spans outlive the port, and `post` takes jobs for as long
  static absl::StatusOr<std::unique_ptr<GrpcPort>> Start(const GrpcPortOptions& options,
                                                         DoorRules rules, Upstream* upstream,
                                                         PostToLoop post, Traffic* traffic,
                                                         metrics::SpanWriter* spans = nullptr);
  ~GrpcPort();

  const std::string& address() const { return server_->address(); }

  // Tells probes whether the service can serve. Called every kTick.  Thread: any.
  void Tick();
  // From now on nothing new is taken, and nobody should send calls here.  Thread: any.
  void Drain();
  // Ends what is being generated.  Thread: any.
  void EndAll(const absl::Status& why) { forwarder_.EndAll(why); }
  // Calls that are not over.  Thread: any.
  int64_t under_way() { return calls_.under_way(); }
  // All that there were.  Thread: any.
  int64_t begun() const { return calls_.begun(); }

 private:
  GrpcPort(const GrpcPortOptions& options, DoorRules rules, Upstream* upstream, PostToLoop post,
           Traffic* traffic, metrics::SpanWriter* spans);

  const DoorRules rules_;
  Upstream* const upstream_;
  door::Door door_;
  Forwarder forwarder_;
  AdmittedCalls calls_;
  const std::vector<std::unique_ptr<FrontEnd>> front_ends_;
  door::ReflectionService reflection_;
  std::atomic<bool> draining_{false};
  std::unique_ptr<door::PublicServer> server_;
};

}  // namespace tutti::gateway
