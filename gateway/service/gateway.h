// Requests of HTTP, and who answers them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gateway/door_rules.h"
#include "gateway/http/server.h"
#include "gateway/service/caller.h"
#include "gateway/service/console.h"
#include "gateway/service/generation.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

// Thread: the server's loop, unless said otherwise.
class Gateway : public HttpHandler {
 public:
  Gateway(DoorRules rules, Upstream* upstream, Console* console)
      : rules_(std::move(rules)), upstream_(upstream), console_(console) {}
  // Before any request.
  void set_server(HttpServer* server) { server_ = server; }

  void Handle(std::shared_ptr<Exchange> exchange) override;

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
  void AnswerModels(const Caller& caller);
  void AnswerChat(const Caller& caller);
  void AnswerCompletion(const Caller& caller);
  void AnswerTokenize(const Caller& caller);
  void AnswerDetokenize(const Caller& caller);

  // Reads the body where that delays nobody, then begins.
  template <typename Read>
  void ReadAndGenerate(const Caller& caller, Read read);
  void Generate(const Caller& caller, std::variant<GenerationRequest, ApiError> request);
  void Later(const Caller& caller, std::function<std::function<void()>()> job);

  const DoorRules rules_;
  Upstream* const upstream_;
  Console* const console_;
  HttpServer* server_ = nullptr;
  bool draining_ = false;
  std::vector<std::weak_ptr<Generation>> generations_;
};

}  // namespace tutti::gateway
