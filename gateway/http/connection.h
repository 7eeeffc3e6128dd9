// One connection: requests in, answers out, one after another.
//
// A read is always under way, so that a client that goes is noticed; what comes before the last
// answer is sent lies here, up to a bound that ends the connection. What is written and not yet
// sent is bounded for streams.
//
// Thread: the loop's.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "door/byte_budget.h"
#include "door/unread_output.h"
#include "gateway/http/byte_stream.h"
#include "gateway/http/exchange.h"
#include "gateway/http/handshake_gate.h"
#include "gateway/http/request_reader.h"
#include "gateway/limits.h"

namespace tutti::gateway {

// The state that connections share.
struct ConnectionContext {
  HttpHandler* handler = nullptr;
  const Clock* clock = nullptr;
  door::ByteBudget* budget = nullptr;  // of requests on their way, and of answers nobody reads
  HandshakeGate* handshakes = nullptr;
  Duration idle_time = kIdleTime;
  int64_t exchanges = 0;   // under way
  int64_t read_bytes = 0;  // of all of them, since the beginning
  bool draining = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<ByteStream> stream, HttpPeer peer, ConnectionContext* context);

  void Start();
  // Ends it if it has taken too long over what it is at.
  void CheckTime(Instant now);
  // Ends it if no request has begun.
  void CloseIfIdle();
  // At once.
  void Abort();

  bool closed() const { return closed_; }
  bool idle() const { return !closed_ && phase_ == Phase::kIdle; }
  const std::string& account() const { return peer_.account; }

  // What it is at, in the order in which connections make way where there is no place for another.
  enum class Standing : uint8_t {
    kUnread,   // its client does not read what lies ready
    kWaiting,  // for a request, or for the rest of its head
    kSending,  // the client sends a body
    kBusy,     // with a request
  };
  struct Stands {
    Standing as = Standing::kBusy;
    Instant since{};
  };
  Stands StandsAt(Instant now) const;

 private:
  class Answer;
  enum class Phase : uint8_t { kHandshake, kIdle, kHead, kBody, kAnswer, kFarewell };

  void Enter(Phase phase);
  void BeginHandshake();
  void LeaveGate();
  void MaybeRead();
  void OnRead(boost::system::error_code error, size_t bytes);
  // Feeds the reader until it needs more or has a request.
  void Consume();
  // Whether the owner may have so much of a request here. `slow`: small ones count as well.
  bool CountBody(bool slow);
  // There is no memory for what it is at.
  void EndForMemory();
  void BeginAnswer();
  void Refuse(int status, const std::string& why);
  void Refuse(HttpResponse response);
  void Send(std::string bytes);
  void MaybeWrite();
  // A client is too slow when it does not read, not when much is written at once: the last events
  // of an answer repeat all of its text.
  void EndIfBehind();
  void OnWritten(boost::system::error_code error, size_t bytes);
  size_t unsent() const { return sending_.size() - sent_ + ready_.size(); }
  // All of the answer is sent.
  void Next();

  const std::unique_ptr<ByteStream> stream_;
  const HttpPeer peer_;
  ConnectionContext* const context_;
  Phase phase_ = Phase::kHandshake;
  bool closed_ = false;
  Instant since_ = kInstantNever;            // of the phase
  Instant deadline_ = kInstantNever;         // of the phase
  Instant write_since_ = kInstantNever;      // of the write under way
  Instant behind_since_ = kInstantNever;     // more than kUnsentBytesMax have lain ready
  Instant handshake_since_ = kInstantNever;  // while it has a place at the gate

  RequestReader reader_;
  std::array<char, kReadBytes> read_{};
  bool reading_ = false;
  bool continued_ = false;  // the client has been told to send its body
  bool head_seen_ = false;  // the handler has been asked about the head
  size_t unread_ = 0;       // bytes taken since a refusal, which nobody looks at
  std::string in_;          // read and not yet taken
  std::string owner_;       // who pays, as far as it is known
  door::ByteBudget::Charge body_charge_;
  std::optional<door::UnreadOutput> unsent_charge_;  // while much lies ready

  std::shared_ptr<Answer> answer_;
  std::string sending_, ready_;
  size_t sent_ = 0;  // of sending_
  bool writing_ = false;
  bool close_ = false;  // after what is ready
};

}  // namespace tutti::gateway
