#include "transport/grpc/grpc_runtime.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/thread.h"
#include "spdlog/spdlog.h"
#include "transport/handshakes.h"

namespace tutti::transport {
namespace {

std::atomic<bool> log_ends{false};

// gRPC's own lines, which it writes on stderr before an error reaches us, name its source files and
// nothing of ours. They go to our log, for those who ask for it.
void LogOfGrpc(gpr_log_func_args* line) {
  if (log_ends.load(std::memory_order_acquire)) return;
  ReadHandshakeLog(line->message);
  spdlog::debug("gRPC: {}", line->message);
}

// Protobuf has a line on stderr for every string that is not UTF-8: as many as strangers like. What
// was wrong with a message is said in its answer.
void LogOfProtobuf(google::protobuf::LogLevel level, const char* file, int line,
                   const std::string& message) {
  if (log_ends.load(std::memory_order_acquire)) return;
  const bool ends_process = level == google::protobuf::LOGLEVEL_FATAL;
  spdlog::log(ends_process ? spdlog::level::critical : spdlog::level::debug,
              "protobuf, {}, line {}: {}", file, line, message);
}

// gRPC's threads outlive main, the log does not.
void EndLogWithMain() {
  std::atexit([] { log_ends.store(true, std::memory_order_release); });
}

void TakeLogOfGrpc() {
  const char* const asked = std::getenv("GRPC_VERBOSITY");
  if (asked != nullptr && *asked != '\0') return;  // somebody looks into gRPC itself
  gpr_set_log_function(&LogOfGrpc);
  EndLogWithMain();
}

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

// By which gRPC sizes its pools and a server's.
int Processors() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 16);
}

// Two that look at timers, some that poll, and its pools.
absl::Status CheckRoom() { return CheckRoomForThreads("gRPC", 6 + Processors()); }

}  // namespace

absl::Status CheckRoomForPort() {
  return CheckRoomForThreads("a port of gRPC's", 2 + Processors());
}

void TakeLogOfProtobuf() {
  google::protobuf::SetLogHandler(&LogOfProtobuf);
  EndLogWithMain();
}

absl::Status KeepGrpcRunning() {
  static std::atomic<bool> runs{false};
  if (!runs) TUTTI_RETURN_IF_ERROR(CheckRoom());
  // Never destroyed: static destructors run while gRPC's threads do. Kept although it is never
  // read, or leak checkers would not find the way to it.
  [[gnu::used]] static const auto* const kept = [] {
    TakeLogOfGrpc();
    grpc_init();
    return new std::shared_ptr<grpc::Channel>(ChannelWithThreads());
  }();
  static_cast<void>(kept);
  runs = true;
  return absl::OkStatus();
}

}  // namespace tutti::transport
