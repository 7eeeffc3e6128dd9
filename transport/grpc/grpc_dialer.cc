#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/grpc/grpc_address.h"
#include "transport/grpc/grpc_link.h"
#include "transport/grpc/grpc_runtime.h"
#include "transport/grpc/grpc_stream.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr char kConnectMethod[] = "/tutti.peer.v1.Peer/Connect";

grpc::ChannelArguments LinkChannelArguments(const std::string& server_name) {
  grpc::ChannelArguments arguments;
  // A connection of its own, so that a large activation never delays a plan.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveTime.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepaliveTimeout.count()));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kFrameBytesMax));
  arguments.SetMaxSendMessageSize(static_cast<int>(kFrameBytesMax));
  // A compressed message would grow without a bound; left as it is, it is no frame.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  // A link is never repaired: no second try, and no copies kept for one.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(kConnectTimeout.count()));
  // The operator's configuration alone says where to connect and how: no environment, no DNS
  // record.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // Zero-copy sends can corrupt data in this version of gRPC (CVE-2024-11407).
  arguments.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  if (!server_name.empty()) arguments.SetSslTargetNameOverride(server_name);
  return arguments;
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Lives from Dial to OnDone.
class DialReactor final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          public StreamState::Operations {
 public:
  // `listener`: the URI that the listener's certificate must have; empty: none.
  DialReactor(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<StreamState> stream,
              std::string listener)
      : stream_(std::move(stream)),
        stub_(std::move(channel)),
        listener_(std::move(listener)),
        address_(stream_->peer()) {}

  void Start() {
    stub_.PrepareBidiStreamingCall(&context_, kConnectMethod, {}, this);
    // Writes are started by other threads; the hold keeps this reactor until no more will come.
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  void Write(const grpc::ByteBuffer* frame, grpc::WriteOptions options) override {
    StartWrite(frame, options);
  }
  void End(const absl::Status& status) override {
    StartWritesDone();
    RemoveHold();
  }
  void Read() override { StartRead(&incoming_); }
  void Cancel() override { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return stream_->OnReadEnd();
    if (!std::exchange(checked_, true)) {
      if (const absl::Status right = CheckListener(); !right.ok()) stream_->Close(right);
    }
    stream_->OnRead(incoming_);
    incoming_.Clear();
    if (stream_->MayRead()) StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override { stream_->OnWritten(ok); }
  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<StreamState> stream = std::move(stream_);
    stream->Detach();
    // A listener that was dialled by mistake may have refused the link by itself.
    const bool has_shown = CallerOf(context_.auth_context().get(), {}).has_certificate;
    const absl::Status right = has_shown ? CheckListener() : absl::OkStatus();
    delete this;
    stream->OnDone(right.ok() ? FromGrpc(status) : right);
  }

 private:
  // Before the first frame is read; a closed stream reads none.
  absl::Status CheckListener() const {
    if (listener_.empty()) return absl::OkStatus();
    const Caller who = CallerOf(context_.auth_context().get(), {});
    for (const Identity& identity : who.identities) {
      if (IdentityUri(identity) == listener_) return absl::OkStatus();
    }
    return absl::PermissionDeniedError(
        absl::StrCat("the certificate of ", address_, " does not have the URI ", listener_));
  }

  std::shared_ptr<StreamState> stream_;
  grpc::GenericStub stub_;
  const std::string listener_;  // empty: nobody in particular
  const std::string address_;
  bool checked_ = false;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
};

// Ends a stream that never began, on a gRPC thread as every other end.
void FailSoon(const std::shared_ptr<StreamState>& stream, const absl::Status& reason) {
  stream->NeverBegin();
  auto timer = std::make_shared<grpc::Alarm>();
  // The timer keeps its callback, which keeps the timer until it is called.
  timer->Set(gpr_now(GPR_CLOCK_MONOTONIC), [timer, stream, reason](bool) mutable {
    stream->OnDone(reason);
    timer.reset();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcDialer>> GrpcDialer::Create(const GrpcDialerOptions& options) {
  TUTTI_RETURN_IF_ERROR(KeepGrpcRunning());
  TUTTI_ASSIGN_OR_RETURN(auto identity, ChannelIdentity::Open(options.tls));
  return std::unique_ptr<GrpcDialer>(new GrpcDialer(std::move(identity), options));
}

GrpcDialer::GrpcDialer(std::shared_ptr<ChannelIdentity> identity, GrpcDialerOptions options)
    : identity_(std::move(identity)),
      options_(std::move(options)),
      streams_(std::make_shared<StreamRegistry>()) {}

GrpcDialer::~GrpcDialer() { streams_->Stop(absl::OkStatus(), kStopTimeout); }

std::unique_ptr<Link> GrpcDialer::Dial(const DialTarget& target,
                                       std::unique_ptr<LinkHandler> handler) {
  auto stream = std::make_shared<StreamState>(StreamState::Role::kDialer, target.address, streams_);
  stream->SetHandler(std::move(handler));
  auto link = std::make_unique<GrpcLink>(stream);
  // Only the destructor refuses, and no call of Dial may run beside it.
  absl::Status allowed = streams_->Add(stream, std::numeric_limits<int64_t>::max());
  if (allowed.ok() && !identity_->is_secure() && !IsLocalAddress(target.address)) {
    allowed = absl::FailedPreconditionError(
        absl::StrCat("without TLS certificates only loopback and unix addresses are dialled, and ",
                     target.address, " is neither"));
  }
  if (!allowed.ok()) {
    FailSoon(stream, allowed);
    return link;
  }
  const std::string& server_name =
      target.server_name.empty() ? options_.server_name : target.server_name;
  auto* reactor = new DialReactor(grpc::CreateCustomChannel(target.address, identity_->Current(),
                                                            LinkChannelArguments(server_name)),
                                  stream, identity_->is_secure() ? target.listener : "");
  stream->Attach(reactor);
  reactor->Start();
  return link;
}

}  // namespace tutti::transport
