// Requests of HTTP, and who answers them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/door_rules.h"
#include "gateway/gateway_metrics.h"
#include "gateway/http/server.h"
#include "gateway/service/caller.h"
#include "gateway/service/console.h"
#include "gateway/service/http_api.h"
#include "gateway/service/loop_jobs.h"
#include "gateway/service/route.h"
#include "gateway/service/upstream.h"
#include "metrics/http_call.h"
#include "metrics/process_metrics.h"
#include "metrics/span_writer.h"

namespace tutti::gateway {

class GrpcPort;

// Thread: the server's loop, unless said otherwise.
class Gateway : public HttpHandler {
 public:
  // `apis`: of the protocols that are served. `certificates`: whose ends /metrics tells. `spans`:
  // null: nothing is traced.  REQUIRES: all outlive the gateway
  Gateway(DoorRules rules, Upstream* upstream, Console* console, LoopJobs* jobs,
          std::vector<HttpApi*> apis, std::vector<metrics::CertificateFile> certificates = {},
          metrics::SpanWriter* spans = nullptr);
  // Called before any request.
  void set_server(HttpServer* server) { server_ = server; }
  // Called before the loop runs: the port that drains and ends with this, where there is one.
  void set_grpc(GrpcPort* grpc) { grpc_ = grpc; }

  // Called before the loop runs: /metrics tells those of the process there too.
  void set_metrics_of(metrics::HttpUrl url) { metrics_of_ = std::move(url); }

  void Handle(std::shared_ptr<Exchange> exchange) override;
  Verdict Judge(const HttpRequest& head) override;
  void OnTick() override;

  // From now on nothing new is generated, and nobody should send requests here.
  void Drain();
  // Ends what is being generated.
  void EndAll();

 private:
  std::vector<Route> Routes();
  void AnswerHealth(const Caller& caller);
  void AnswerMetrics(const Caller& caller);
  Caller MakeCaller(std::shared_ptr<Exchange> exchange, const HttpRequest& request) const;

  const DoorRules rules_;
  Upstream* const upstream_;
  Console* const console_;
  LoopJobs* const jobs_;
  const std::vector<HttpApi*> apis_;
  const std::vector<metrics::CertificateFile> certificates_;
  metrics::SpanWriter* const spans_;
  std::optional<metrics::HttpUrl> metrics_of_;
  const SystemClock clock_{};
  const std::vector<Route> routes_;
  GatewayMetrics metrics_;
  HttpServer* server_ = nullptr;
  GrpcPort* grpc_ = nullptr;
  bool draining_ = false;
};

}  // namespace tutti::gateway
