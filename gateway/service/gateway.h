// Requests of HTTP, and who answers them.
//
// Its functions are in two files, because two of its routes need no request of the service's:
// gateway_tokens.cc has these.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/door_rules.h"
#include "gateway/gateway_metrics.h"
#include "gateway/http/server.h"
#include "gateway/openai/parse_choice.h"
#include "gateway/openai/service/generation.h"
#include "gateway/openai/service/keyed_answers.h"
#include "gateway/service/caller.h"
#include "gateway/service/console.h"
#include "gateway/service/upstream.h"
#include "metrics/process_metrics.h"
#include "metrics/span_writer.h"

namespace tutti::gateway {

class GrpcPort;

// Thread: the server's loop, unless said otherwise.
class Gateway : public HttpHandler {
 public:
  // `certificates`: whose ends /metrics tells. `spans`: null: nothing is traced.
  Gateway(DoorRules rules, ParseRules parse_rules, Upstream* upstream, Console* console,
          std::vector<metrics::CertificateFile> certificates = {},
          metrics::SpanWriter* spans = nullptr);
  // Called before any request.
  void set_server(HttpServer* server) { server_ = server; }
  // Called before the loop runs: the port that drains and ends with this, where there is one.
  void set_grpc(GrpcPort* grpc) { grpc_ = grpc; }

  void Handle(std::shared_ptr<Exchange> exchange) override;
  std::optional<HttpResponse> RefuseHead(const HttpRequest& head) override;
  void OnTick() override;

  // From now on nothing new is generated, and nobody should send requests here.
  void Drain();
  // Ends what is being generated.
  void EndAll();

 private:
  using Route = void (Gateway::*)(const Caller& caller);
  struct Entry;
  static const Entry kRoutes[];

  void AnswerHealth(const Caller& caller);
  void AnswerLive(const Caller& caller);
  void AnswerVersion(const Caller& caller);
  void AnswerLoad(const Caller& caller);
  void AnswerMetrics(const Caller& caller);
  void AnswerModels(const Caller& caller);
  void AnswerChat(const Caller& caller);
  void AnswerCompletion(const Caller& caller);
  void AnswerResponses(const Caller& caller);
  void AnswerTokenize(const Caller& caller);
  void AnswerDetokenize(const Caller& caller);

  Caller MakeCaller(std::shared_ptr<Exchange> exchange, const HttpRequest& request) const;
  // Reads the body where that delays nobody, then begins.
  template <typename Read>
  void ReadAndGenerate(const Caller& caller, Read read);
  struct Prepared;
  void Generate(const Caller& caller, Prepared prepared);
  // Whether an answer under its key is there already, and is given to the caller.
  bool ReadAgain(const Caller& caller, const Prepared& prepared, const EventOptions& events);
  // Generates when the ids of its prompts are known, which the service tells.
  void FindPromptIds(const Caller& caller, Prepared prepared);
  void Later(const Caller& caller, Lane lane, std::function<std::function<void()>()> job);

  const DoorRules rules_;
  const ParseRules parse_rules_;
  Upstream* const upstream_;
  Console* const console_;
  const std::vector<metrics::CertificateFile> certificates_;
  metrics::SpanWriter* const spans_;
  const SystemClock clock_{};
  GatewayMetrics metrics_;
  HttpServer* server_ = nullptr;
  GrpcPort* grpc_ = nullptr;
  bool draining_ = false;
  std::vector<std::weak_ptr<Generation>> generations_;
  KeyedAnswers keyed_;
};

}  // namespace tutti::gateway
