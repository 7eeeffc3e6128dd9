// Links over gRPC: one bidirectional stream of frames on a connection of its own.
//
// Each end sees, beyond the contract in link.h:
//   * After Close or ~Link no new OnFrame starts on that end. Its own OnClosed gets the reason it
//     closed with, OK for ~Link.
//   * A dialer gives its reason for closing in a last frame, a listener in the stream's status. A
//     peer that goes without a reason, killed or cut off, is UNAVAILABLE; a silent one is found by
//     keepalive within 16 s.
//   * Queued frames have kCloseTimeout to leave after Close; then the stream is cancelled.
//   * OnFrame and OnClosed run on gRPC's threads, of which there are two on a small machine and
//     which also answer keepalive pings: a handler that computes there makes its own process look
//     dead.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/grpc/credentials.h"
#include "transport/grpc/grpc_listener.h"
#include "transport/link.h"
#include "transport/link_gate.h"
#include "tutti/peer/v1/peer.grpc.pb.h"

namespace tutti::transport {

class StreamRegistry;
class StreamState;

struct GrpcDialerOptions {
  TlsFiles tls;  // all three, or none
  // The name that a listener's certificate must carry where the target says none; empty: the host
  // of the target.
  std::string server_name;
};

// Dials "host:port" and "unix:/path". Without certificates only loopback and unix targets: others
// are an OnClosed with FAILED_PRECONDITION.  Thread: any.
class GrpcDialer : public Dialer {
 public:
  // Errors of Certificates::Open.
  static absl::StatusOr<std::unique_ptr<GrpcDialer>> Create(const GrpcDialerOptions& options = {});
  // Closes the links that are left, waits for their last OnClosed, for kStopTimeout in good order
  // and then without. REQUIRES: not called by a handler.
  ~GrpcDialer() override;

  // With certificates the listener's must have the URI of target.listener, where that is given.
  std::unique_ptr<Link> Dial(const DialTarget& target,
                             std::unique_ptr<LinkHandler> handler) override;

 private:
  GrpcDialer(std::shared_ptr<ChannelIdentity> identity, GrpcDialerOptions options);

  const std::shared_ptr<ChannelIdentity> identity_;
  const GrpcDialerOptions options_;
  const std::shared_ptr<StreamRegistry> streams_;
};

// The listening side, to be registered with any server. It must outlive that server.
class PeerService final : public v1::Peer::WithRawCallbackMethod_Connect<v1::Peer::Service> {
 public:
  // `accept` is called on gRPC's threads, possibly on several at once, for peers that have given
  // the proofs of `rules`; a null handler refuses a link with PERMISSION_DENIED, unless accept
  // closed it with a reason of its own.
  explicit PeerService(AcceptCallback accept, GateRules rules = {});
  ~PeerService() override;

  // Accepts no more, closes all links with `reason` and waits until they are gone, for kStopTimeout
  // in good order and then without. To be called before the server's Shutdown, which would cut them
  // off without a word. REQUIRES: not called by a handler.
  void Stop(const absl::Status& reason);

  // The book for the watch over the connections of the port: which of them are of peers that have
  // given their proofs.
  CreditBook* book() { return &book_; }

  // Called with the peer of each stream that begins.  REQUIRES: before the server starts.
  void OnStream(std::function<void(const std::string&)> on_stream) {
    on_stream_ = std::move(on_stream);
  }

 private:
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Connect(
      grpc::CallbackServerContext* context) override;

  // Asks the peer of a new stream for its proofs, where it has to give any.
  void Guard(const grpc::CallbackServerContext& context,
             const std::shared_ptr<StreamState>& stream);

  const AcceptCallback accept_;
  const GateRules rules_;
  std::function<void(const std::string&)> on_stream_;
  CreditBook book_;
  const std::shared_ptr<StreamRegistry> streams_;
};

// Sizes, keepalive and time-outs that links need, for a builder that serves a PeerService.
void ConfigureForPeers(grpc::ServerBuilder* builder);

struct GrpcPeerServerOptions {
  std::string address;  // "host:port", port 0 for any free one, or "unix:/path"
  TlsFiles tls;
  GateRules rules = {};
  ConnectionWatch::OnUnread on_unread = nullptr;  // see GrpcListener
};

// Peers are workers: by their certificates, or because nobody else can reach the port or knows the
// cluster's secret.
inline constexpr PortRules kPeerPortRules = {.without_certificate = {Role::kWorker}};

// A listener on a port of its own.  Thread: the owner's, one call at a time.
class GrpcPeerServer {
 public:
  // Errors of MakeServerCredentials; UNAVAILABLE when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcPeerServer>> Start(const GrpcPeerServerOptions& options,
                                                               AcceptCallback accept);
  ~GrpcPeerServer();

  // The address to dial, with the port that was bound.
  const std::string& address() const { return listener_->address(); }

  // Closes all links with UNAVAILABLE and stops listening. Idempotent.  REQUIRES: not called by a
  // handler.
  void Stop();

 private:
  GrpcPeerServer(AcceptCallback accept, GateRules rules)
      : service_(std::move(accept), std::move(rules)) {}

  PeerService service_;
  std::unique_ptr<GrpcListener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tutti::transport
