// A request for generated text, from its JSON to the last byte of its answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "door/byte_budget.h"
#include "gateway/http/server.h"
#include "gateway/openai/answer.h"
#include "gateway/answer_writer.h"
#include "gateway/kept_messages.h"
#include "gateway/service/caller.h"
#include "gateway/service/request_trace.h"
#include "gateway/service/traffic.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

// The form in which its client wants to get it.
struct GenerationOptions {
  EventOptions events;
  bool kept = false;                // goes on without its client, and may be read again
  door::ByteBudget::Charge charge;  // of its calls, until they end
};

// Keeps itself alive until the service is done with its last call.
//
// Thread: the server's loop.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Caller caller, GenerationRequest request, GenerationOptions options,
             Upstream* upstream, HttpServer* server, Traffic* traffic, metrics::SpanWriter* spans);
  ~Generation();

  void Start();
  // Says that the stream is still there, where it has said nothing for long: proxies end what is
  // silent. Every kTick.
  void Tick(Instant now);
  // Its answer ends with an error; the service is told to stop.
  void End(const ApiError& error);
  // The same request has come again: it gets the answer from its beginning, or after the event that
  // its client has, and the client that reads it now gets an error.  REQUIRES: may_be_read_again()
  void ReadAgain(Caller caller, EventOptions events);
  // From now on it is as one without a key: without a reader it ends.
  void StopKeeping();

  const std::string& id() const { return head_.id; }
  bool has_reader() const { return reader_ == Reader::kReads; }
  // Kept, and so far without an error.
  bool may_be_read_again() const { return kept_; }
  size_t kept_bytes() const { return messages_.bytes(); }
  // It has become too long to be kept.
  bool outgrew() const { return outgrew_; }

 private:
  class Observer;
  enum class Reader { kReads, kHasAll, kGone };

  void Listen();
  void OnGone(const Exchange* exchange);
  void OnMessage(size_t prompt, const v1::GenerateResponse& message);
  void OnCallEnd(size_t prompt, const absl::Status& status);
  void Write(size_t prompt, const v1::GenerateResponse& message);
  void WriteEnd();
  void WriteError(const ApiError& error);
  // There was no memory for a message.
  void EndForMemory();
  void Send(std::string piece);
  void CancelCalls();

  Caller caller_;
  GenerationRequest request_;
  Upstream* const upstream_;
  HttpServer* const server_;
  Traffic* const traffic_;
  uint64_t traffic_number_ = 0;
  RequestTrace trace_;
  const bool stream_;
  const size_t prompts_;
  const AnswerShape shape_;
  const AnswerHead head_;
  v1::Resume resume_;  // of the first reader; empty token: it begins
  std::unique_ptr<AnswerWriter> writer_;
  std::vector<std::unique_ptr<Observer>> observers_;
  std::vector<std::unique_ptr<client::GenerateCall>> calls_;  // until all have ended
  door::ByteBudget::Charge charge_;                           // of these
  size_t calls_ended_ = 0;
  bool kept_;
  bool outgrew_ = false;
  KeptMessages messages_;
  Reader reader_ = Reader::kReads;
  bool begun_ = false;    // the head of a stream is sent
  Instant said_at_;       // something of it was
  bool stopped_ = false;  // the calls were cancelled
};

}  // namespace tutti::gateway
