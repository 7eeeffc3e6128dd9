#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/server.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/grpc/grpc_address.h"
#include "transport/grpc/grpc_link.h"
#include "transport/grpc/grpc_listener.h"
#include "transport/grpc/grpc_runtime.h"
#include "transport/grpc/grpc_stream.h"
#include "transport/identify.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

using FrameReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// Lives from Connect to OnDone.
class AcceptReactor final : public FrameReactor, public StreamState::Operations {
 public:
  AcceptReactor(grpc::CallbackServerContext* context, std::shared_ptr<StreamState> stream)
      : context_(context), stream_(std::move(stream)) {}

  void Start() { StartRead(&incoming_); }

  void Write(const grpc::ByteBuffer* frame, grpc::WriteOptions options) override {
    StartWrite(frame, options);
  }
  void End(const absl::Status& status) override { Finish(ToGrpc(status)); }
  void Read() override { StartRead(&incoming_); }
  void Cancel() override { context_->TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return stream_->OnReadEnd();
    stream_->OnRead(incoming_);
    incoming_.Clear();
    if (stream_->MayRead()) StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override { stream_->OnWritten(ok); }
  void OnCancel() override { stream_->OnCancelled(); }
  void OnDone() override {
    const std::shared_ptr<StreamState> stream = std::move(stream_);
    stream->Detach();
    delete this;
    stream->OnDone(std::nullopt);
  }

 private:
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<StreamState> stream_;
  grpc::ByteBuffer incoming_;
};

// Other servers of this process may have health checks and reflection added to every server; a
// peer's port has one method.
class NothingElse final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* arguments) override {
    arguments->SetPointer(grpc::kHealthCheckServiceInterfaceArg, nullptr);
  }
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

class RefuseReactor final : public FrameReactor {
 public:
  explicit RefuseReactor(const absl::Status& reason) { Finish(ToGrpc(reason)); }
  void OnDone() override { delete this; }
};

}  // namespace

PeerService::PeerService(AcceptCallback accept, GateRules rules)
    : accept_(std::move(accept)),
      rules_(std::move(rules)),
      streams_(std::make_shared<StreamRegistry>()) {
  // Whoever makes one has made credentials for its port, and heard of an error then.
  (void)KeepGrpcRunning();
}

PeerService::~PeerService() = default;

void PeerService::Stop(const absl::Status& reason) { streams_->Stop(reason, kStopTimeout); }

FrameReactor* PeerService::Connect(grpc::CallbackServerContext* context) {
  auto stream =
      std::make_shared<StreamState>(StreamState::Role::kListener, context->peer(), streams_);
  const absl::Status allowed = streams_->Add(stream, kAcceptedLinksMax);
  if (!allowed.ok()) return new RefuseReactor(allowed);
  auto* reactor = new AcceptReactor(context, stream);
  stream->Attach(reactor);
  Guard(*context, stream);
  streams_->EvictStrangers(kStrangersMax);
  reactor->Start();
  return reactor;
}

void PeerService::Guard(const grpc::CallbackServerContext& context,
                        const std::shared_ptr<StreamState>& stream) {
  const Caller caller = CallerOf(context.auth_context().get(), {});
  GatePeer peer{.has_certificate = caller.has_certificate};
  for (const Identity& identity : caller.identities) {
    if (identity.role == Role::kWorker) peer.worker_names.push_back(identity.name);
  }
  if (on_stream_) on_stream_(context.peer());
  const std::shared_ptr<ConnectionCredit> credit = book_.Find(context.peer());
  if (!NeedsGate(rules_, peer)) {
    credit->Trust();
    return stream->Accept(accept_);
  }
  stream->Distrust(kIdentifyTimeout, NotIdentified());
  peer.on_admitted = [weak = std::weak_ptr(stream), credit] {
    credit->Trust();
    if (const auto admitted = weak.lock()) admitted->Trust();
  };
  stream->Accept([&](std::unique_ptr<Link> link) {
    return MakeGate(std::move(link), rules_, std::move(peer), accept_);
  });
}

void ConfigureForPeers(grpc::ServerBuilder* builder) {
  ConfigurePort(builder);
  builder->SetMaxReceiveMessageSize(static_cast<int>(kFrameBytesMax));
  builder->SetMaxSendMessageSize(static_cast<int>(kFrameBytesMax));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveTime.count()));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              static_cast<int>(kKeepaliveTimeout.count()));
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              static_cast<int>(kKeepalivePermitted.count()));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                              static_cast<int>(kIdleConnectionTimeout.count()));
  // A compressed message would grow without a bound; left as it is, it is no frame.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
}

namespace {

// A handshake that fails is a peer refused, before it could give a name.
HandshakePort::OnFailure FailureTeller(const GrpcPeerServerOptions& options) {
  if (!options.rules.on_refused) return nullptr;
  return [tell = options.rules.on_refused](const std::string& peer, const std::string& why) {
    tell(peer.empty() ? "one of several peers" : peer, "", absl::UnauthenticatedError(why));
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcPeerServer>> GrpcPeerServer::Start(
    const GrpcPeerServerOptions& options, AcceptCallback accept) {
  TUTTI_ASSIGN_OR_RETURN(auto credentials,
                         MakeServerCredentials(options.address, options.tls, kPeerPortRules));
  std::unique_ptr<GrpcPeerServer> server(new GrpcPeerServer(std::move(accept), options.rules));
  grpc::ServerBuilder builder;
  ConfigureForPeers(&builder);
  builder.SetOption(std::make_unique<NothingElse>());
  // A link has a connection of its own, so a peer needs no second stream on one.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  TUTTI_ASSIGN_OR_RETURN(server->listener_,
                         GrpcListener::Listen({.address = options.address,
                                               .is_secure = !options.tls.certificate.empty(),
                                               .bounds = PeerPortBounds(RaiseDescriptorLimit()),
                                               .probe = {},
                                               .book = server->service_.book(),
                                               .on_unread = options.on_unread,
                                               .on_handshake_failure = FailureTeller(options)},
                                              std::move(credentials), &builder));
  builder.RegisterService(&server->service_);
  server->service_.OnStream([listener = server->listener_.get()](const std::string& peer) {
    listener->OnHandshakeDone(peer);
  });
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("gRPC cannot serve at ", options.address));
  }
  server->listener_->Start();
  return server;
}

GrpcPeerServer::~GrpcPeerServer() { Stop(); }

void GrpcPeerServer::Stop() {
  if (server_ == nullptr) return;
  listener_->Stop();
  service_.Stop(absl::UnavailableError(absl::StrCat(address(), " is shutting down")));
  // All links are gone; streams that a peer opened since are cut off.
  listener_->EndConnections();
  server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
  server_.reset();
}

}  // namespace tutti::transport
