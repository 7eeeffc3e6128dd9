// A request for generated text, from its JSON to the last byte of its answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/answer.h"
#include "gateway/http/server.h"
#include "gateway/service/caller.h"
#include "gateway/service/traffic.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

// Keeps itself alive until the service is done with its last call.
//
// Thread: the server's loop.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Caller caller, GenerationRequest request, Upstream* upstream, HttpServer* server,
             Traffic* traffic);
  ~Generation();

  void Start();
  // Its answer ends with an error; the service is told to stop.
  void End(const ApiError& error);
  bool ended() const { return ended_; }

 private:
  class Observer;

  void OnMessage(size_t prompt, const v1::GenerateResponse& message);
  void OnCallEnd(size_t prompt, const absl::Status& status);
  void CancelCalls();

  const Caller caller_;
  GenerationRequest request_;
  Upstream* const upstream_;
  HttpServer* const server_;
  Traffic* const traffic_;
  uint64_t traffic_number_ = 0;
  const std::string id_;
  const bool stream_;
  const size_t prompts_;
  StreamAnswer streamed_;
  WholeAnswer whole_;
  std::vector<std::unique_ptr<Observer>> observers_;
  std::vector<std::unique_ptr<client::GenerateCall>> calls_;
  size_t calls_ended_ = 0;
  bool begun_ = false;  // the head of a stream is sent
  bool ended_ = false;  // the answer is, or its client is gone
};

}  // namespace tutti::gateway
