#include "transport/grpc/grpc_runtime.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <future>
#include <memory>

namespace tutti::transport {
namespace {

// A channel that leads nowhere and whose one call has failed: the call made it take a reference to
// the threads.
std::shared_ptr<grpc::Channel> ChannelWithThreads() {
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel("", std::shared_ptr<grpc::ChannelCredentials>(), {});
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice nothing;
  grpc::ByteBuffer request(&nothing, 1), response;
  std::promise<void> done;
  stub.UnaryCall(&context, "/nowhere", {}, &request, &response,
                 [&done](const grpc::Status&) { done.set_value(); });
  done.get_future().wait();
  return channel;
}

}  // namespace

void KeepGrpcRunning() {
  // Never destroyed: static destructors run while gRPC's threads do. Kept although it is never
  // read, or leak checkers would not find the way to it.
  [[gnu::used]] static const auto* const kept = [] {
    grpc_init();
    return new std::shared_ptr<grpc::Channel>(ChannelWithThreads());
  }();
  static_cast<void>(kept);
}

}  // namespace tutti::transport
