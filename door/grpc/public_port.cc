#include "door/grpc/public_port.h"

#include <grpcpp/resource_quota.h>

#include "door/limits.h"
#include "transport/limits.h"

namespace tutti::door {
namespace {

int Ms(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

void ConfigurePublicPort(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kRequestBytesMax);
  // Clients ping when long prompts send nothing for a while; ours do so after 8 s.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Ours, for clients that have vanished. Without the last line gRPC stops after two pings on a
  // connection that has nothing to send.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Ms(kPublicPingAfter));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Ms(kPublicPingTimeout));
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Ms(kPublicIdleMax));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  // The window of a stream that nobody reads stays as it is. Measuring the line's bandwidth would
  // let it grow to megabytes; a message that is being read gets the window it needs all the same.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder->AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, transport::kStrangerReadBytesMax);
  grpc::ResourceQuota quota("public port");
  quota.SetMaxThreads(kReflectionThreadsMax);
  builder->SetResourceQuota(quota);
}

}  // namespace tutti::door
