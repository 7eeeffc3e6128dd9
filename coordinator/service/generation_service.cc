#include "coordinator/service/generation_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "coordinator/requests/not_serving.h"
#include "coordinator/service/detokenize.h"
#include "coordinator/service/limits.h"
#include "coordinator/service/prompt_requests.h"
#include "coordinator/service/served_numerics.h"
#include "door/grpc/message_parser.h"
#include "transport/grpc/credentials.h"

namespace tutti::coordinator {
namespace {

// Tokenizing runs at megabytes a second: two threads of each kind keep up with more text than the
// workers can compute. One more takes small requests only.
constexpr door::WorkPool::Threads kTokenizerThreads = {.small = 1, .medium = 2, .large = 2};

Instant DeadlineOf(const grpc::CallbackServerContext& context, Instant now) {
  const std::optional<Duration> left = door::TimeLeftOf(context);
  return left ? now + *left : kInstantNever;
}

// Empty where there is none, or several.
std::string_view TraceparentOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  if (metadata.count("traceparent") != 1) return {};
  const grpc::string_ref value = metadata.find("traceparent")->second;
  return {value.data(), value.size()};
}

}  // namespace

void ServingState::Set(const ServingChanged& now) {
  const MutexLock lock(&mutex_);
  now_ = now;
}

absl::Status ServingState::Check() const {
  const MutexLock lock(&mutex_);
  return now_.serving ? absl::OkStatus() : NotServing(now_.why_not, now_.leaving);
}

GenerationService::GenerationService(const ServedModel* model, const ServingState* serving,
                                     const Clock* clock, EngineLoop* engine, OutputHub* hub,
                                     bool share_cache_domain,
                                     transport::RoleSet without_certificate, door::Door* door,
                                     std::shared_ptr<const ResumeTokens> resume_tokens,
                                     metrics::SpanWriter* spans)
    : door::RawService(v1::GenerateRequest::descriptor()->file()->FindServiceByName("Inference")),
      share_cache_domain_(share_cache_domain),
      without_certificate_(without_certificate),
      model_(model),
      serving_(serving),
      clock_(clock),
      engine_(engine),
      hub_(hub),
      door_(door),
      resume_tokens_(std::move(resume_tokens)),
      grammars_(std::make_shared<RunningGrammars>(
          RunningGrammars::Limits{.tenant = kTenantGrammarsMax,
                                  .tenant_bytes = kTenantGrammarBytesMax,
                                  .all = kGrammarsMax,
                                  .all_bytes = kGrammarBytesMax})),
      spans_(spans),
      pool_(kTokenizerThreads, kMailboxEventsMax),
      patient_pool_({.any = 1, .nice_steps = grammar::kPatientNiceSteps}, kPatientRequestsMax) {
  Serve("Generate", [this](auto* context) { return BeginGenerate(context); });
  Serve("Tokenize", [this](auto* context) { return BeginTokenize(context); });
  Serve("Detokenize", [this](auto* context) { return BeginDetokenize(context); });
  Serve("GetModel", [this](auto* context) { return BeginGetModel(context); });
}

void GenerationService::Work(const std::shared_ptr<door::ClientCall>& call, Instant deadline,
                             std::function<absl::Status(door::ReceivedRequest)> work) {
  const auto run = [this, call, deadline, work = std::move(work)] {
    std::optional<door::ReceivedRequest> received = call->TakeRequest();
    if (received.has_value()) WorkOn(call.get(), deadline, *std::move(received), work);
  };
  const bool queued =
      pool_.Submit({.client = call->client(), .bytes = call->request_bytes(), .run = run});
  if (!queued) call->End(door::Overloaded("too many requests arrive at once"));
}

void GenerationService::WorkOn(door::ClientCall* call, Instant deadline,
                               door::ReceivedRequest received,
                               const std::function<absl::Status(door::ReceivedRequest)>& work) {
  if (call->ended()) return;
  if (clock_->Now() >= deadline) {
    return call->End(
        absl::DeadlineExceededError("the deadline passed before the request was looked at"));
  }
  const auto bytes = static_cast<int64_t>(received.bytes.Length());
  const absl::Status done = door::WithinMemory([&] { return work(std::move(received)); });
  if (absl::IsInvalidArgument(done)) {
    ++door_->invalid;
    return call->Refuse(done, bytes, clock_->Now());
  }
  if (!done.ok()) call->End(done);
}

door::ClientCall::Reactor* GenerationService::Start(grpc::CallbackServerContext* context,
                                                    door::ClientCall* call,
                                                    door::ClientCall::OnRequest on_request) const {
  const transport::Caller caller =
      transport::CallerOf(context->auth_context().get(), without_certificate_);
  auto* const reactor = call->Start(context, door_, std::move(on_request));
  if (caller.roles.Has(transport::Role::kGateway)) call->TrustConnection();
  return reactor;
}

door::ClientCall::Reactor* GenerationService::BeginGenerate(grpc::CallbackServerContext* context) {
  Call call{.arrival = clock_->Now(),
            .tenants = door::TenantsOf(*context),
            .accounts = door::AccountsOf(*context),
            .rights = door::RightsOf(
                transport::CallerOf(context->auth_context().get(), without_certificate_))};
  call.deadline = DeadlineOf(*context, call.arrival);
  auto stream = std::make_shared<door::GenerateStream>();
  stream->SetTrace(door::StreamTrace(spans_, TraceparentOf(*context)));
  return Start(context, stream.get(), [this, stream, call = std::move(call)] {
    Work(stream, call.deadline, [this, stream, call](door::ReceivedRequest received) {
      return Generate(std::move(received), call, stream, /*patient=*/false);
    });
  });
}

door::ClientCall::Reactor* GenerationService::BeginTokenize(grpc::CallbackServerContext* context) {
  const Instant deadline = DeadlineOf(*context, clock_->Now());
  auto call = std::make_shared<door::UnaryCall>();
  return Start(context, call.get(), [this, call, deadline] {
    Work(call, deadline, [this, call](const door::ReceivedRequest& received) -> absl::Status {
      v1::TokenizeRequest request;
      TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &request));
      v1::TokenizeResponse response;
      TUTTI_RETURN_IF_ERROR(coordinator::Tokenize(request, *model_, &response));
      call->Reply(response);
      return absl::OkStatus();
    });
  });
}

door::ClientCall::Reactor* GenerationService::BeginDetokenize(
    grpc::CallbackServerContext* context) {
  const Instant deadline = DeadlineOf(*context, clock_->Now());
  auto call = std::make_shared<door::UnaryCall>();
  return Start(context, call.get(), [this, call, deadline] {
    Work(call, deadline, [this, call](const door::ReceivedRequest& received) -> absl::Status {
      v1::DetokenizeRequest request;
      TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &request));
      v1::DetokenizeResponse response;
      TUTTI_RETURN_IF_ERROR(coordinator::Detokenize(request, *model_, &response));
      call->Reply(response);
      return absl::OkStatus();
    });
  });
}

door::ClientCall::Reactor* GenerationService::BeginGetModel(grpc::CallbackServerContext* context) {
  auto call = std::make_shared<door::UnaryCall>();
  const door::AskerRights rights =
      door::RightsOf(transport::CallerOf(context->auth_context().get(), without_certificate_));
  return Start(context, call.get(), [this, call, may_name = rights.may_name_tenant] {
    // Whatever it holds: there is nothing to ask.
    if (call->TakeRequest()) DescribeModel(may_name, call);
  });
}

void GenerationService::DescribeModel(bool may_name_tenants,
                                      const std::shared_ptr<door::UnaryCall>& call) const {
  v1::GetModelResponse response;
  response.set_name(model_->name);
  for (const std::string& name : model_->other_names) response.add_other_names(name);
  response.set_may_name_tenants(may_name_tenants);
  response.set_architecture(model_->config.architecture);
  response.set_fingerprint(model_->ServedFingerprint());
  response.set_context_length(static_cast<uint32_t>(model_->max_model_len));
  response.set_vocab_size(static_cast<uint32_t>(model_->config.vocab_size));
  response.set_dtype(std::string(DTypeName(model_->config.dtype)));
  for (const int32_t id : model_->generation.eos_token_ids) response.add_eos_token_ids(id);
  if (model_->chat_template.ok()) response.set_chat_template(model_->chat_template->source());
  // The class that computes is the engine's to know.
  engine_->GetStatus([call, response](const v1::GetStatusResponse& status) mutable {
    FillServedNumerics(status, &response);
    call->Reply(response);
  });
}

}  // namespace tutti::coordinator
