#include "coordinator/service/coordinator.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "coordinator/service/tenant.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"
#include "transport/grpc/grpc_address.h"

namespace tutti::coordinator {
namespace {

constexpr const char* kServices[] = {"", "tutti.v1.Inference", "tutti.v1.Admin"};

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return text.str();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(
    const CoordinatorOptions& options) {
  if (options.tls_certificate.empty()) {
    if (!transport::IsLocalAddress(options.listen)) {
      return absl::FailedPreconditionError(
          absl::StrCat("--listen ", options.listen,
                       ": without --tls-cert and --tls-key only loopback addresses "
                       "(127.0.0.1, [::1], localhost) and unix: sockets are served"));
    }
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions ssl(
      options.tls_client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                    : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  TUTTI_ASSIGN_OR_RETURN(pair.cert_chain, ReadPem(options.tls_certificate));
  TUTTI_ASSIGN_OR_RETURN(pair.private_key, ReadPem(options.tls_key));
  ssl.pem_key_cert_pairs.push_back(pair);
  if (!options.tls_client_ca.empty()) {
    TUTTI_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadPem(options.tls_client_ca));
  }
  return grpc::SslServerCredentials(ssl);
}

}  // namespace

Coordinator::Coordinator(std::unique_ptr<ServedModel> model, CoordinatorOptions options)
    : model_(std::move(model)), options_(std::move(options)) {}

Coordinator::~Coordinator() { Shutdown(Duration::zero()); }

absl::Status Coordinator::Start() {
  EngineOptions engine = options_.engine;
  engine.model = model_->config;
  engine.model_name = model_->name;
  engine.model_fingerprint = model_->fingerprint;
  engine.max_model_len = model_->max_model_len;
  engine.prefix_key = RandomKey();
  hub_ = std::make_unique<OutputHub>(
      model_->tokenizer.get(), &clock_,
      [this](RequestId request, CancelCause cause) { engine_->Cancel(request, cause); });
  engine_ = std::make_unique<EngineLoop>(std::move(engine), &clock_, this);
  generation_ = std::make_unique<GenerationService>(model_.get(), &serving_, &clock_, engine_.get(),
                                                    hub_.get(), options_.share_cache_domain);
  admin_ = std::make_unique<AdminService>(
      model_.get(), engine_.get(),
      [this](std::string_view tenant) { return generation_->CacheDomainOf(tenant); });
  TUTTI_RETURN_IF_ERROR(StartPublicServer());
  hub_->Start();
  engine_->Start();
  transport::GrpcPeerServerOptions peer;
  peer.address = options_.peer_listen;
  peer.tls = options_.peer_tls;
  absl::StatusOr<std::unique_ptr<transport::GrpcPeerServer>> peer_server =
      transport::GrpcPeerServer::Start(peer, engine_->acceptor());
  if (!peer_server.ok()) return Annotate(peer_server.status(), "--peer-listen");
  peer_server_ = std::move(*peer_server);
  return WriteReadyFile();
}

absl::Status Coordinator::StartPublicServer() {
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                         Credentials(options_));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options_.listen, credentials, &port);
  builder.RegisterService(generation_.get());
  builder.RegisterService(admin_.get());
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  // Clients ping when long prompts send nothing for a while; gateways do so every 10 s.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  // Two coordinators on one port would each get half of the clients; the second must fail instead.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  server_ = builder.BuildAndStart();
  const bool is_unix = options_.listen.rfind("unix:", 0) == 0;
  if (server_ == nullptr || (port == 0 && !is_unix)) {
    return absl::UnavailableError(
        absl::StrCat("--listen ", options_.listen,
                     ": cannot listen there; is the address right and the port free?"));
  }
  address_ = transport::WithPort(options_.listen, port);
  health_ = server_->GetHealthCheckService();
  for (const char* service : kServices) health_.load()->SetServingStatus(service, false);
  return absl::OkStatus();
}

absl::Status Coordinator::WriteReadyFile() const {
  if (options_.ready_file.empty()) return absl::OkStatus();
  const std::string temporary = options_.ready_file + ".new";
  std::ofstream file(temporary, std::ios::trunc);
  file << nlohmann::json{{"address", address_}}.dump() << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), options_.ready_file.c_str()) != 0) {
    return absl::UnavailableError(absl::StrCat("--ready-file: cannot write ", options_.ready_file));
  }
  return absl::OkStatus();
}

void Coordinator::Shutdown(Duration grace) {
  if (server_ == nullptr) return;
  if (health_.load() != nullptr) health_.load()->Shutdown();
  engine_->Drain();
  const Instant deadline = clock_.Now() + grace;
  while (hub_->open_streams() > 0 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // The public server first: no new request arrives, and those left are cancelled.
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  engine_->Stop();
  hub_->Stop();
  if (peer_server_ != nullptr) peer_server_->Stop();
  server_->Wait();
  health_ = nullptr;
  generation_.reset();
  server_.reset();
}

void Coordinator::OnTokens(DeliverTokens tokens) { hub_->Tokens(std::move(tokens)); }

void Coordinator::OnFinish(FinishRequest finish) { hub_->Finish(std::move(finish)); }

void Coordinator::OnServing(bool serving, const std::string& why_not) {
  if (serving) {
    spdlog::info("serving '{}' at {}", model_->name, address_);
  } else {
    // Not to serve yet is news; to serve no longer is trouble.
    spdlog::log(was_serving_ ? spdlog::level::warn : spdlog::level::info, "not serving: {}",
                why_not);
  }
  was_serving_ = serving;
  serving_.Set(serving, why_not);
  grpc::HealthCheckServiceInterface* health = health_.load();
  if (health == nullptr) return;
  for (const char* service : kServices) health->SetServingStatus(service, serving);
}

}  // namespace tutti::coordinator
