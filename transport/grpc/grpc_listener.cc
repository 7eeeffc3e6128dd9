#include "transport/grpc/grpc_listener.h"

#include <utility>

#include "transport/limits.h"

namespace tutti::transport {

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Listen(
    Options options, std::shared_ptr<grpc::ServerCredentials> credentials,
    grpc::ServerBuilder* builder) {
  constexpr auto kFromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;
  std::unique_ptr<GrpcListener> listener(new GrpcListener(std::move(options)));
  if (listener->options_.is_secure) {
    listener->handshakes_ =
        std::make_unique<HandshakePort>(listener->options_.on_handshake_failure);
  }
  TUTTI_ASSIGN_OR_RETURN(listener->loop_,
                         AcceptLoop::Listen({.address = listener->options_.address,
                                             .bounds = listener->options_.bounds,
                                             .expects_tls = listener->options_.is_secure}));
  listener->acceptor_ =
      builder->experimental().AddExternalConnectionAcceptor(kFromFd, std::move(credentials));
  listener->own_calls_ = builder->experimental().AddExternalConnectionAcceptor(
      kFromFd, grpc::InsecureServerCredentials());
  return listener;
}

GrpcListener::~GrpcListener() { Stop(); }

void GrpcListener::Start() {
  if (options_.book != nullptr) {
    watch_ = std::make_unique<ConnectionWatch>(ConnectionWatch::Options{
        .port = address(),
        .book = options_.book,
        .on_unread = options_.on_unread,
        .on_cut = [this](const std::string& account) { loop_->SlowDown(account); }});
    watch_->Start();
  }
  loop_->Start([this](int fd, bool is_own_call) {
    if (watch_ != nullptr && !is_own_call) watch_->Add(fd);
    if (handshakes_ != nullptr && !is_own_call) {
      handshakes_->Began(PeerNameOf(SocketAddress::OfOtherEnd(fd)));
    }
    Acceptor::NewConnectionParameters connection;
    connection.fd = fd;
    (is_own_call ? own_calls_ : acceptor_)->HandleNewConnection(&connection);
  });
  probe_ = std::make_unique<SelfProbe>(loop_.get(), options_.probe);
}

void GrpcListener::Stop() {
  probe_.reset();
  if (loop_ != nullptr) loop_->Stop();
  watch_.reset();
}

void ConfigurePort(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kHeaderBytesMax);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              static_cast<int>(kHandshakeTimeout.count()));
  // Zero-copy sends can corrupt data in this version of gRPC (CVE-2024-11407).
  builder->AddChannelArgument(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
}

}  // namespace tutti::transport
