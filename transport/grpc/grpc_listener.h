// The port of a gRPC server: our accept loop in front of it, a probe and a watch beside it.
//
//   Listen      binds, and prepares a builder to take connections
//   BuildAndStart of the builder
//   Start       connections are served from now on
//   Stop        no more are; before the server's Shutdown, which would leave them open
//   EndConnections  those that are there end; before the server's Shutdown, which would say
//               CANCELLED to calls of the last moment, and clients take that for their own doing
//
// Thread: the owner's, one call at a time.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/accept_loop.h"
#include "transport/connection_watch.h"
#include "transport/credit_book.h"
#include "transport/grpc/self_probe.h"
#include "transport/handshakes.h"

namespace tutti::transport {

class GrpcListener {
 public:
  struct Options {
    std::string address;
    bool is_secure = false;  // `credentials` are TLS
    ConnectionBounds bounds;
    SelfProbe::Options probe;
    // The fate of the connections' bytes; null: nobody watches them. Outlives the listener.
    CreditBook* book = nullptr;
    ConnectionWatch::OnUnread on_unread = nullptr;
    // Called for TLS handshakes that fail at this port (transport/handshakes.h).
    HandshakePort::OnFailure on_handshake_failure = nullptr;
  };

  // Errors of OpenListeningSockets. `builder` must be built while this lives.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Listen(
      Options options, std::shared_ptr<grpc::ServerCredentials> credentials,
      grpc::ServerBuilder* builder);
  ~GrpcListener();

  // The address to dial, with the port that was bound.
  const std::string& address() const { return loop_->address(); }
  void Start();
  void Stop();
  // Whoever waits for an answer hears UNAVAILABLE.  REQUIRES: stopped.
  void EndConnections() { loop_->EndConnections(); }
  AcceptLoop::Counts counts() const { return loop_->counts(); }
  // The peer of a connection ("ipv4:10.0.0.7:4001") has a stream.  Thread: any.
  void OnHandshakeDone(const std::string& peer) {
    if (handshakes_ != nullptr) handshakes_->Succeeded(peer);
  }
  // Connections that the watch has ended.
  int64_t cut() const { return watch_ == nullptr ? 0 : watch_->cut(); }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  explicit GrpcListener(Options options) : options_(std::move(options)) {}

  const Options options_;
  std::unique_ptr<HandshakePort> handshakes_;  // null without TLS
  std::unique_ptr<AcceptLoop> loop_;
  std::unique_ptr<Acceptor> acceptor_;
  // The acceptor for this process's own calls, which have no certificate.
  std::unique_ptr<Acceptor> own_calls_;
  std::unique_ptr<SelfProbe> probe_;
  std::unique_ptr<ConnectionWatch> watch_;
};

// The settings that every port of ours asks of its server: bounds on headers and handshakes, and
// nothing that gRPC 1.51 does badly.
void ConfigurePort(grpc::ServerBuilder* builder);

}  // namespace tutti::transport
