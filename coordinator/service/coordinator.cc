#include "coordinator/service/coordinator.h"

#include <grpcpp/health_check_service_interface.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "base/clock.h"
#include "coordinator/service/limits.h"
#include "door/tenant.h"
#include "nlohmann/json.hpp"
#include "program/ready_file.h"
#include "spdlog/spdlog.h"
#include "transport/private_folder.h"

namespace tutti::coordinator {
namespace {

constexpr const char* kServices[] = {"", "tutti.v1.Inference"};

}  // namespace

Coordinator::Coordinator(std::unique_ptr<ServedModel> model, CoordinatorOptions options)
    : model_(std::move(model)),
      options_(std::move(options)),
      door_(options_.door),
      request_metrics_(model_->max_model_len) {
  model_->has_draft = options_.engine.draft != nullptr;
}

Coordinator::~Coordinator() { Shutdown(Duration::zero()); }

door::PublicPort Coordinator::PublicPortOptions() const {
  return {.listen = options_.listen,
          .tls = {options_.tls_certificate, options_.tls_key, options_.tls_client_ca},
          .without_clients_ca = options_.without_clients_ca,
          .plaintext = options_.plaintext,
          .role = options_.public_role};
}

absl::Status Coordinator::Start() {
  TUTTI_RETURN_IF_ERROR(transport::CheckMethodTable());
  TUTTI_ASSIGN_OR_RETURN(const transport::PeerSecurity security,
                         transport::PeerSecurity::Open({options_.peer_tls, options_.secret_file},
                                                       {transport::Role::kCoordinator, ""}));
  TUTTI_RETURN_IF_ERROR(security.CheckAddress("--peer-listen", options_.peer_listen));
  TUTTI_ASSIGN_OR_RETURN(spans_, metrics::SpanWriter::Start("tutti-coordinator", options_.traces));
  EngineOptions engine = options_.engine;
  engine.model = model_->config;
  engine.model_name = model_->name;
  engine.model_fingerprint = model_->fingerprint;
  engine.max_model_len = model_->max_model_len;
  engine.compare_checkpoint = true;
  engine.compare_memory = true;
  engine.prefix_key = door::RandomKey();
  engine.step_metrics = &step_metrics_;
  engine.vocabulary = model_->vocabulary;
  hub_ = std::make_unique<OutputHub>(
      model_->tokenizer.get(), &clock_,
      [this](RequestId request, CancelCause cause) { engine_->Cancel(request, cause); },
      &request_metrics_);
  weights_ = std::make_unique<WeightsServer>(&clock_, options_.weights_bytes_per_second);
  engine_ = std::make_unique<EngineLoop>(std::move(engine), &clock_, this,
                                         options_.lease ? &options_.lease->time() : nullptr,
                                         weights_.get());
  generation_ = std::make_unique<GenerationService>(
      model_.get(), &serving_, &clock_, engine_.get(), hub_.get(), options_.share_cache_domain,
      door::PublicRoles(PublicPortOptions()), &door_,
      std::make_shared<const ResumeTokens>(security.secret() == nullptr
                                               ? transport::RandomNonce()
                                               : security.secret()->KeyFor("resume tokens")),
      spans_.get());
  admin_ = std::make_unique<AdminService>(
      model_.get(), engine_.get(), &door_,
      [this](std::string_view tenant) { return generation_->CacheDomainOf(tenant); });
  TUTTI_RETURN_IF_ERROR(StartPublicServer());
  TUTTI_ASSIGN_OR_RETURN(
      operator_server_,
      OperatorServer::Start(options_.admin_listen.empty() ? transport::OperatorAddress(address())
                                                          : options_.admin_listen,
                            PublicPortOptions(), admin_.get()));
  hub_->Start();
  engine_->Start();
  digests_ = StartDigests();
  TUTTI_RETURN_IF_ERROR(StartMetricsServer());
  TUTTI_RETURN_IF_ERROR(Annotate(StartPeerServer(security), "--peer-listen"));
  return BeginToLead();
}

absl::Status Coordinator::BeginToLead() {
  if (options_.lease == nullptr) {
    Lead(static_cast<uint32_t>(WallSeconds()), false);
    return SayReady();
  }
  engine_->StandBy(absl::StrCat("it asks for ", options_.lease->about()));
  leadership_ = std::make_unique<Leadership>(
      options_.lease.get(), &clock_,
      Leadership::Callbacks{.on_standing_by =
                                [this](const std::string& why) {
                                  spdlog::info("standing by: {}", why);
                                  engine_->StandBy(why);
                                },
                            .on_lead =
                                [this](uint32_t incarnation) {
                                  Lead(incarnation, true);
                                  const absl::Status written = SayReady();
                                  if (!written.ok()) spdlog::error("{}", written.ToString());
                                },
                            .on_lost = options_.on_leads_no_more});
  // From then on that thread writes it.
  TUTTI_RETURN_IF_ERROR(SayReady());
  leadership_->Start();
  return absl::OkStatus();
}

void Coordinator::Lead(uint32_t incarnation, bool judged) {
  spdlog::info("leads as number {}{}", incarnation,
               judged ? absl::StrCat(", by ", options_.lease->about()) : "");
  engine_->Lead({.incarnation = incarnation, .judged = judged});
  *leads_ = true;
}

void Coordinator::OnLeaseOver() {
  options_.on_leads_no_more(
      absl::StrCat(options_.lease->about(), " is lost: it ran out before a frame was sent"));
}

// Workers dial whoever stands by too, and are told at once that it does.
transport::AcceptCallback Coordinator::WorkerAcceptor() {
  return [leads = leads_, take = engine_->acceptor()](
             std::unique_ptr<transport::Link> link) -> std::unique_ptr<transport::LinkHandler> {
    if (*leads) return take(std::move(link));
    link->Close(absl::UnavailableError("this coordinator stands by, another leads"));
    return nullptr;
  };
}

// Its callbacks only post.
std::unique_ptr<model::DigestRun> Coordinator::StartDigests() {
  model::DigestCallbacks callbacks;
  callbacks.on_progress = [this](int percent) {
    engine_->TellDigests(
        {.digests = nullptr, .why_not = absl::StrCat("comparing the checkpoint: ", percent, " %")});
  };
  callbacks.on_failure = [this](const absl::Status& why) {
    spdlog::error("cannot digest the checkpoint: {}; trying again", std::string(why.message()));
    engine_->TellDigests(
        {.digests = nullptr,
         .why_not = absl::StrCat("cannot compare the checkpoint: ", why.message(),
                                 "; if it was replaced, restart the coordinator")});
  };
  callbacks.on_known = [this](auto digests, int64_t hashed_bytes, double seconds) {
    spdlog::info("digested the checkpoint in {:.1f} s, {} of it anew", seconds,
                 FormatBytes(hashed_bytes));
    OfferWeights(digests);
    engine_->TellDigests({.digests = std::move(digests), .why_not = {}});
  };
  return std::make_unique<model::DigestRun>(
      model_->checkpoint,
      model::DigestOptions{.cache_paths = model::DigestCachePaths(model_->checkpoint->dir())},
      std::move(callbacks));
}

// Without, workers need the checkpoint on their own disks, and are told so.
void Coordinator::OfferWeights(std::shared_ptr<const model::CheckpointDigests> digests) {
  auto files = WeightsFiles::Open(model_->fingerprint, std::move(digests));
  if (files.ok()) return weights_->SetFiles(*std::move(files));
  const std::string why = absl::StrCat(
      "workers cannot have the checkpoint from the coordinator: ", files.status().message(),
      "; mend that and restart the coordinator, or give workers the checkpoint (--model)");
  spdlog::error("{}", why);
  weights_->SetNone(absl::FailedPreconditionError(why));
}

absl::Status Coordinator::StartPeerServer(const transport::PeerSecurity& security) {
  TUTTI_RETURN_IF_ERROR(transport::ClaimSocket(options_.peer_listen));
  transport::GateRules rules = security.rules();
  rules.on_refused = [this](const std::string& peer, const std::string& worker_id,
                            const absl::Status& reason) {
    engine_->TellRefused(peer, worker_id, reason);
  };
  TUTTI_ASSIGN_OR_RETURN(
      peer_server_, transport::GrpcPeerServer::Start(
                        {.address = options_.peer_listen,
                         .tls = security.tls(),
                         .rules = std::move(rules),
                         .on_unread = [this](Duration duration) { engine_->TellUnread(duration); }},
                        WorkerAcceptor()));
  return absl::OkStatus();
}

absl::Status Coordinator::StartMetricsServer() {
  if (options_.metrics_listen.empty()) return absl::OkStatus();
  MetricsPage page = {.engine = engine_.get(),
                      .requests = &request_metrics_,
                      .steps = &step_metrics_,
                      .door = &door_,
                      .grammars = &generation_->grammars(),
                      .spans = spans_.get(),
                      .certificates = {{"public", options_.tls_certificate},
                                       {"peer", options_.peer_tls.certificate}},
                      .model = model_->name,
                      .vllm_names = options_.vllm_metrics};
  TUTTI_ASSIGN_OR_RETURN(
      metrics_server_, metrics::Listener::Start(options_.metrics_listen,
                                                [page = std::move(page)] { return page.Write(); }));
  spdlog::info("metrics at http://{}/metrics", metrics_server_->address());
  return absl::OkStatus();
}

absl::Status Coordinator::StartPublicServer() {
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                         door::PublicCredentials(PublicPortOptions()));
  TUTTI_ASSIGN_OR_RETURN(
      server_,
      door::PublicServer::Start("--listen", options_.listen, std::move(credentials),
                                !options_.tls_certificate.empty(), &door_.book,
                                {generation_.get(), &reflection_},
                                transport::PublicPortBounds(transport::RaiseDescriptorLimit())));
  health_ = server_->health();
  for (const char* service : kServices) health_.load()->SetServingStatus(service, false);
  return absl::OkStatus();
}

absl::Status Coordinator::SayReady() const {
  const nlohmann::json ready = {{"address", address()},
                                {"admin", admin_address()},
                                {"metrics", metrics_address()},
                                {"state", *leads_ ? "leads" : "stands by"}};
  const std::string& file = options_.ready_file;
  if (file.empty() || WriteReadyFile(file, ready.dump())) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--ready-file: cannot write ", file,
                                             "; choose a folder that this user may write"));
}

void Coordinator::Shutdown(Duration grace, const Hurried& hurried) {
  if (server_ == nullptr) return;
  if (health_.load() != nullptr) health_.load()->Shutdown();
  // A coordinator that stands by and is told to end does not begin to lead.
  if (!*leads_) leadership_.reset();
  engine_->Drain();
  generation_->Drain();
  const auto wait_for = [&](const std::function<bool()>& is_over, Duration patience,
                            const Hurried& sooner) {
    const Instant deadline = clock_.Now() + patience;
    while (!is_over() && clock_.Now() < deadline && !(sooner && sooner())) {
      std::this_thread::sleep_for(kShutdownLookInterval);
    }
    return is_over();
  };
  const auto streams_are_over = [this] {
    return generation_->num_waiting() == 0 && hub_->open_streams() == 0;
  };
  if (!wait_for(streams_are_over, grace, hurried)) {
    engine_->EndAll();
    wait_for(streams_are_over, kEndPatience, nullptr);
  }
  wait_for([this] { return door_.calls == 0; }, kLastWordsPatience, nullptr);
  // The public server first: no new request arrives, and those left lose their connection.
  server_->Shutdown();
  // Before the engine: its thread answers the calls that are still waiting.
  metrics_server_.reset();
  if (operator_server_ != nullptr) operator_server_->Stop();
  digests_.reset();
  engine_->Stop();
  weights_.reset();  // whose questions come from there
  hub_->Stop();
  if (peer_server_ != nullptr) peer_server_->Stop();
  leadership_.reset();  // whoever stands by may lead from here
  server_->Wait();
  health_ = nullptr;
  generation_.reset();
  server_.reset();
}

void Coordinator::OnTokens(DeliverTokens tokens) { hub_->Tokens(std::move(tokens)); }

void Coordinator::OnFinish(FinishRequest finish) { hub_->Finish(std::move(finish)); }

void Coordinator::OnServing(const ServingChanged& changed) {
  if (changed.serving) {
    spdlog::info("serving '{}' at {}", model_->name, address());
  } else {
    // Not to serve yet is news; to serve no longer is trouble.
    spdlog::log(was_serving_ ? spdlog::level::warn : spdlog::level::info, "not serving: {}",
                changed.why_not);
  }
  was_serving_ = changed.serving;
  serving_.Set(changed);
  grpc::HealthCheckServiceInterface* health = health_.load();
  if (health == nullptr) return;
  for (const char* service : kServices) health->SetServingStatus(service, changed.serving);
}

}  // namespace tutti::coordinator
