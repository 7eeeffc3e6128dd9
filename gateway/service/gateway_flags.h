// The flags of tutti-gateway.
#pragma once

#include <string>
#include <vector>

#include "client/client_options.h"
#include "gateway/http/server.h"
#include "gateway/limits.h"
#include "metrics/span_writer.h"
#include "program/daemon.h"
#include "program/flags.h"

namespace tutti::gateway {

struct GatewayFlags {
  ServerOptions server;
  std::string grpc;  // where tutti.v1.Inference is served; empty: nowhere
  bool grpc_plaintext = false;
  bool http_plaintext = false;
  bool without_keys = false;
  client::ClientOptions client;  // `admin`: several of them, with commas between
  std::string certificate_folder;
  std::string api_keys;
  std::string api_key, api_key_file;  // one of them at most
  std::string metrics_of;             // of the coordinator; empty: not handed on
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> cors_origins;
  std::string tool_parser = "auto";
  std::string reasoning_parser = "auto";
  bool reasoning_content = false;
  Duration heartbeat = kHeartbeat;
  metrics::TraceOptions traces;
  std::string ready_file;
  DaemonFlags daemon = {.drain_timeout = std::chrono::seconds(10)};
};

void AddGatewayFlags(FlagSet* set, GatewayFlags* flags);

// FAILED_PRECONDITION for a port that others than this machine reach, without keys or in the clear,
// unless the flags say so aloud.
absl::Status CheckDoors(const GatewayFlags& flags);

}  // namespace tutti::gateway
