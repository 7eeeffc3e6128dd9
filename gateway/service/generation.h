// A request for generated text over HTTP, from its calls of the service to the last byte of its
// answer, in the form of any protocol.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "door/byte_budget.h"
#include "gateway/answer_writer.h"
#include "gateway/http/server.h"
#include "gateway/kept_messages.h"
#include "gateway/service/caller.h"
#include "gateway/service/request_trace.h"
#include "gateway/service/traffic.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

// What all of them need. Outlives them.
struct GenerationContext {
  Upstream* upstream = nullptr;
  HttpServer* server = nullptr;
  Traffic* traffic = nullptr;
  metrics::SpanWriter* spans = nullptr;  // null: nothing is traced
  Duration heartbeat = kHeartbeat;       // of streams that say nothing; 0: none
};

// The request, as its protocol has read it.
struct GenerationPlan {
  // One for each prompt, all with as many outputs. Without request_id and tenant.
  std::vector<v1::GenerateRequest> calls;
  bool stream = false;
  std::string id;    // of the answer
  const char* kind;  // for those who watch: "chat", "text"
  std::string model;
  std::function<std::unique_ptr<AnswerWriter>(EventOptions)> make_writer;
  // What the service says of a call, in the client's words.
  std::function<ApiError(const absl::Status&, size_t prompt)> explain;
};

// The form in which its client wants to get it.
struct GenerationOptions {
  EventOptions events;
  bool kept = false;                // goes on without its client, and may be read again
  door::ByteBudget::Charge charge;  // of its calls, until they end
};

// The bytes that the calls of a request have until they end: true where they need no charge, or
// have it.
bool ChargeCalls(const std::vector<v1::GenerateRequest>& calls, door::ByteBudget::Charge* charge);

// Keeps itself alive until the service is done with its last call.
//
// Thread: the server's loop.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(Caller caller, GenerationPlan plan, GenerationOptions options,
             const GenerationContext* context);
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

  const std::string& id() const { return plan_.id; }
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
  GenerationPlan plan_;
  const GenerationContext& context_;
  uint64_t traffic_number_ = 0;
  RequestTrace trace_;
  const size_t prompts_;
  const size_t outputs_;  // of each
  v1::Resume resume_;     // of the first reader; empty token: it begins
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
