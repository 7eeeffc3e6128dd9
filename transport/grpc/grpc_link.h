// Links over gRPC: one bidirectional stream of frames on a connection of its own.
//
// Each end sees, beyond the contract in link.h:
//   * After Close or ~Link no new OnFrame starts on that end. Its own OnClosed gets the reason it
//     closed with, OK for ~Link.
//   * A dialer gives its reason for closing in a last frame, a listener in the stream's status. A
//     peer that goes without a reason, killed or cut off, is UNAVAILABLE; a silent one is found by
//     keepalive within 2 s.
//   * Queued frames have kCloseTimeout to leave after Close; then the stream is cancelled.
//   * OnFrame and OnClosed run on gRPC's threads, of which there are two on a small machine and
//     which also answer keepalive pings: a handler that computes there makes its own process look
//     dead.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/link.h"
#include "tutti/v1/peer.grpc.pb.h"

namespace tutti::transport {

class StreamRegistry;

// PEM files. All three are set, and both ends then prove their names; or none is.
struct TlsFiles {
  std::string certificate;  // of this process, with its chain
  std::string key;
  std::string authority;  // must have signed the peer's certificate
};

struct GrpcDialerOptions {
  TlsFiles tls;
  // The name the listener's certificate must carry; empty: the host of the dialled target.
  std::string server_name;
};

// Dials "host:port" and "unix:/path". Without certificates only loopback and unix targets: others
// are an OnClosed with FAILED_PRECONDITION.  Thread: any.
class GrpcDialer : public Dialer {
 public:
  // INVALID_ARGUMENT when `tls` is incomplete, NOT_FOUND when a file cannot be read.
  static absl::StatusOr<std::unique_ptr<GrpcDialer>> Create(const GrpcDialerOptions& options = {});
  // Closes the links that are left, waits for their last OnClosed, for kStopTimeout in good order
  // and then without. REQUIRES: not called by a handler.
  ~GrpcDialer() override;

  std::unique_ptr<Link> Dial(const std::string& target,
                             std::unique_ptr<LinkHandler> handler) override;

 private:
  GrpcDialer(std::shared_ptr<grpc::ChannelCredentials> credentials, bool is_secure,
             std::string server_name);

  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const bool is_secure_;
  const std::string server_name_;
  const std::shared_ptr<StreamRegistry> streams_;
};

// The listening side, to be registered with any server. It must outlive that server.
class PeerService final : public v1::Peer::WithRawCallbackMethod_Connect<v1::Peer::Service> {
 public:
  // `accept` is called on gRPC's threads, possibly on several at once; a null handler refuses a
  // link with PERMISSION_DENIED, unless accept closed it with a reason of its own.
  explicit PeerService(AcceptCallback accept);
  ~PeerService() override;

  // Accepts no more, closes all links with `reason` and waits until they are gone, for kStopTimeout
  // in good order and then without. To be called before the server's Shutdown, which would cut them
  // off without a word. REQUIRES: not called by a handler.
  void Stop(const absl::Status& reason);

 private:
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Connect(
      grpc::CallbackServerContext* context) override;

  const AcceptCallback accept_;
  const std::shared_ptr<StreamRegistry> streams_;
};

// Sizes, keepalive and time-outs that links need, for a builder that serves a PeerService.
void ConfigureForPeers(grpc::ServerBuilder* builder);

struct GrpcPeerServerOptions {
  std::string address;  // "host:port", port 0 for any free one, or "unix:/path"
  TlsFiles tls;
};

// Certificates for a server that listens on `address`. FAILED_PRECONDITION when there are none and
// the address is neither loopback nor unix; INVALID_ARGUMENT and NOT_FOUND as for
// GrpcDialer::Create.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& address, const TlsFiles& tls);

// A listener on a port of its own.  Thread: the owner's, one call at a time.
class GrpcPeerServer {
 public:
  // Errors of MakeServerCredentials; UNAVAILABLE when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcPeerServer>> Start(const GrpcPeerServerOptions& options,
                                                               AcceptCallback accept);
  ~GrpcPeerServer();

  // The address to dial, with the port that was bound.
  const std::string& address() const { return address_; }

  // Closes all links with UNAVAILABLE and stops listening. Idempotent.  REQUIRES: not called by a
  // handler.
  void Stop();

 private:
  explicit GrpcPeerServer(AcceptCallback accept) : service_(std::move(accept)) {}

  PeerService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace tutti::transport
