// tutti-gateway: OpenAI's HTTP API, and our own over gRPC, in front of one or more coordinators.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "client/endpoints.h"
#include "door/door.h"
#include "door/heap_trimmer.h"
#include "gateway/anthropic/service/anthropic_api.h"
#include "gateway/grpc/grpc_port.h"
#include "gateway/limits.h"
#include "gateway/openai/service/openai_api.h"
#include "gateway/service/gateway.h"
#include "gateway/service/gateway_flags.h"
#include "gateway/vllm/service/generate_api.h"
#include "program/daemon.h"
#include "program/exit_code.h"
#include "program/ready_file.h"
#include "spdlog/spdlog.h"
#include "transport/connection_table.h"
#include "transport/grpc/grpc_runtime.h"

namespace tutti::gateway {
namespace {

absl::Status SayReady(const std::string& path, const std::string& address, const std::string& grpc,
                      bool is_ready) {
  const nlohmann::json ready = {{"address", address}, {"grpc", grpc}, {"ready", is_ready}};
  if (path.empty() || WriteReadyFile(path, ready.dump())) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--ready-file: cannot write ", path));
}

// "" where there is none.
absl::StatusOr<std::string> PlainKey(const GatewayFlags& flags) {
  if (flags.api_key_file.empty()) return flags.api_key;
  std::ifstream file(flags.api_key_file, std::ios::binary);
  std::string text(kKeyBytesMax + 2, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const std::string key(absl::StripAsciiWhitespace(text));
  if (!key.empty()) return key;
  return absl::InvalidArgumentError(
      absl::StrCat("--api-key-file ", flags.api_key_file, " cannot be read, or is empty"));
}

absl::StatusOr<DoorRules> MakeRules(const GatewayFlags& flags) {
  DoorRules rules{.keys = {},
                  .without_keys = flags.without_keys,
                  .allowed_hosts = {},
                  .cors_origins = flags.cors_origins};
  for (const std::string& host : flags.allowed_hosts) {
    rules.allowed_hosts.push_back(absl::AsciiStrToLower(host));
  }
  if (!flags.api_keys.empty()) {
    TUTTI_ASSIGN_OR_RETURN(rules.keys, ApiKeys::Load(flags.api_keys));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string plain, PlainKey(flags));
  if (!plain.empty()) {
    if (!rules.keys.has_value()) rules.keys.emplace();
    TUTTI_RETURN_IF_ERROR(
        rules.keys->AddPlain(plain, flags.api_key_file.empty() ? "--api-key" : "--api-key-file"));
  }
  return rules;
}

ParseRules MakeParseRules(const GatewayFlags& flags) {
  // "auto" is the name of none.
  return {.tools = ToolFormNamed(flags.tool_parser),
          .reasoning = ReasoningFormNamed(flags.reasoning_parser),
          .old_reasoning_name = flags.reasoning_content};
}

// Lets what runs finish within the grace, then ends it; whether it did. `grpc`: null where there is
// none.
bool Leave(Duration grace, Daemon* daemon, Gateway* gateway, HttpServer* server, GrpcPort* grpc,
           const Upstream& upstream) {
  const SystemClock clock;
  const auto under_way = [&] {
    std::promise<int64_t> answer;
    server->Post([&] { answer.set_value(server->exchanges()); });
    const int64_t grpc_calls = grpc == nullptr ? 0 : grpc->under_way();
    return answer.get_future().get() + grpc_calls + upstream.calls;
  };
  const auto wait = [&](Instant deadline, bool may_hurry) {
    while (under_way() > 0) {
      if (clock.Now() >= deadline || (may_hurry && daemon->hurried())) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  };
  server->Post([gateway] { gateway->Drain(); });
  if (wait(clock.Now() + grace, /*may_hurry=*/true)) return true;
  server->Post([gateway] { gateway->EndAll(); });
  return wait(clock.Now() + kEndTime, /*may_hurry=*/false);
}

// Null where the flags ask for none.
absl::StatusOr<std::unique_ptr<GrpcPort>> StartGrpc(const GatewayFlags& flags, DoorRules rules,
                                                    int64_t descriptors, Upstream* upstream,
                                                    HttpServer* server, Traffic* traffic,
                                                    metrics::SpanWriter* spans) {
  if (flags.grpc.empty()) return nullptr;
  TUTTI_ASSIGN_OR_RETURN(
      auto port,
      GrpcPort::Start(
          {.listen = flags.grpc,
           .tls = flags.grpc_plaintext
                      ? transport::TlsFiles()
                      : transport::TlsFiles{flags.server.tls_certificate, flags.server.tls_key, ""},
           .plaintext = flags.grpc_plaintext,
           .door = {},
           .bounds = transport::PortBoundsBeside(descriptors, flags.server.connections_max)},
          std::move(rules), upstream,
          [server](std::function<void()> job) { server->Post(std::move(job)); }, traffic, spans));
  spdlog::info("gRPC (tutti.v1.Inference, KServe, VllmEngine) at {}", port->address());
  return port;
}

absl::Status SetMetricsOf(const std::string& address, Gateway* gateway) {
  if (address.empty()) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(auto url,
                         metrics::ParseHttpUrl(absl::StrCat("http://", address, "/metrics")));
  gateway->set_metrics_of(std::move(url));
  return absl::OkStatus();
}

// Within so many descriptors, which the ports share.
absl::Status Serve(const GatewayFlags& flags, int64_t descriptors, Daemon* daemon) {
  TUTTI_RETURN_IF_ERROR(CheckDoors(flags));
  const SystemClock clock;
  client::ClientOptions options = flags.client;
  TUTTI_RETURN_IF_ERROR(
      Annotate(client::FillFromFolder(flags.certificate_folder, &options), "--certs"));
  TUTTI_ASSIGN_OR_RETURN(auto client, client::Client::Create(options));
  TUTTI_ASSIGN_OR_RETURN(DoorRules rules, MakeRules(flags));
  TUTTI_ASSIGN_OR_RETURN(auto asks, StatusFeed::MakeAsks(options, options.admin));
  TUTTI_ASSIGN_OR_RETURN(const auto spans,
                         metrics::SpanWriter::Start("tutti-gateway", flags.traces));
  // Before all that may hold bytes of requests.
  const door::HeapTrimmer trimmer;
  door::ByteBudget budget(kBodiesBytesMax);
  Upstream upstream(std::move(client), rules.keys.has_value());
  Console console(std::move(asks), &clock);
  LoopJobs jobs(&upstream);
  GenerationContext context{.upstream = &upstream,
                            .traffic = console.traffic(),
                            .spans = spans.get(),
                            .heartbeat = flags.heartbeat};
  OpenAiApi api(MakeParseRules(flags), &jobs, &context);
  AnthropicApi anthropic(MakeParseRules(flags), &jobs, &context);
  GenerateApi ids(&jobs, &context);
  Gateway gateway(
      rules, &upstream, &console, &jobs, {&api, &anthropic, &ids},
      {{"public", flags.server.tls_certificate}, {"coordinator", options.tls_certificate}},
      spans.get());
  ServerOptions of_server = flags.server;
  of_server.budget = &budget;
  TUTTI_ASSIGN_OR_RETURN(auto server, HttpServer::Create(of_server, &gateway, &clock));
  jobs.set_server(server.get());
  context.server = server.get();
  gateway.set_server(server.get());
  spdlog::info("{} at {}, coordinators at {}", flags.server.tls_key.empty() ? "http" : "https",
               server->address(), options.address);
  if (flags.without_keys) {
    spdlog::warn("--without-keys: whoever reaches {} is served", server->address());
  }
  console.set_server(server.get());
  TUTTI_ASSIGN_OR_RETURN(auto grpc, StartGrpc(flags, std::move(rules), descriptors, &upstream,
                                              server.get(), console.traffic(), spans.get()));
  gateway.set_grpc(grpc.get());
  TUTTI_RETURN_IF_ERROR(SetMetricsOf(flags.metrics_of, &gateway));
  const std::string grpc_address = grpc == nullptr ? "" : grpc->address();
  TUTTI_RETURN_IF_ERROR(SayReady(flags.ready_file, server->address(), grpc_address, false));
  upstream.OnFirstReady([file = flags.ready_file, http = server->address(), grpc_address] {
    const absl::Status said = SayReady(file, http, grpc_address, true);
    if (!said.ok()) spdlog::warn("{}", std::string(said.message()));
  });
  std::thread loop = StartThread("the server", [&server] { server->Run(); });
  daemon->AwaitEnd("draining");
  const bool ended =
      Leave(flags.daemon.drain_timeout, daemon, &gateway, server.get(), grpc.get(), upstream);
  if (!ended && (upstream.calls > 0 || (grpc != nullptr && grpc->under_way() > 0))) {
    // Calls that do not end even so hold what would be destroyed now.
    spdlog::warn("calls did not end, {} of them of Generate", upstream.calls.load());
    spdlog::default_logger()->flush();
    std::_Exit(0);
  }
  // Both post to the loop, for callers who may have gone.
  upstream.StopWork();
  console.Stop();
  server->Post([&server] { server->Stop(); });
  loop.join();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Daemon daemon("tutti-gateway");
  if (!daemon.can_run()) return kExitCannotStart;
  GatewayFlags flags;
  FlagSet program(
      "tutti-gateway",
      "Serves OpenAI's HTTP API, and our own over gRPC, in front of one or more coordinators.");
  AddGatewayFlags(&program, &flags);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  daemon.Begin("gateway", flags.daemon);
  transport::TakeLogOfProtobuf();
  std::signal(SIGPIPE, SIG_IGN);
  door::WaitForMemory();
  const int64_t descriptors = transport::RaiseDescriptorLimit();
  // Both ports have the same of what the process can give; what --max-connections leaves is gRPC's.
  const int64_t of_ports = transport::PortDescriptors(descriptors);
  flags.server.connections_max =
      std::min(flags.server.connections_max, flags.grpc.empty() ? of_ports : of_ports / 2);
  const absl::Status served = Serve(flags, descriptors, &daemon);
  return served.ok() ? 0 : daemon.Complain(served);
}

}  // namespace
}  // namespace tutti::gateway

int main(int argc, char** argv) { return tutti::gateway::Main(argc, argv); }
