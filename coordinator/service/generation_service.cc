#include "coordinator/service/generation_service.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"
#include "coordinator/limits.h"
#include "coordinator/service/message_parser.h"

namespace tutti::coordinator {
namespace {

// Tokenizing runs at megabytes a second: two threads keep up with more text than the workers can
// compute.
constexpr int kTokenizerThreads = 2;

// A seed for a client that gave none. Not secret; only unlikely to repeat.
uint64_t ChooseSeed() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

// gRPC deadlines are wall-clock times; the engine's are monotonic. Converted once, here.
Instant MonotonicDeadline(std::chrono::system_clock::time_point deadline, Instant now) {
  if (deadline == std::chrono::system_clock::time_point::max()) return kInstantNever;
  const auto left = deadline - std::chrono::system_clock::now();
  if (left > std::chrono::hours(24 * 365)) return kInstantNever;
  return now + std::chrono::duration_cast<Duration>(left);
}

// Requests that wait between the service and the engine are accepted within a step or two.
absl::Status Overloaded() {
  return WithRetryDelay(absl::ResourceExhaustedError("too many requests arrive at once"),
                        std::chrono::seconds(1));
}

std::vector<std::string> TenantsOf(const grpc::CallbackServerContext& context) {
  std::vector<std::string> tenants;
  const auto [begin, end] = context.client_metadata().equal_range(kTenantMetadata);
  for (auto at = begin; at != end; ++at) tenants.emplace_back(at->second.data(), at->second.size());
  return tenants;
}

}  // namespace

void ServingState::Set(bool serving, std::string why_not) {
  const MutexLock lock(&mutex_);
  serving_ = serving;
  why_not_ = std::move(why_not);
}

absl::Status ServingState::Check() const {
  const MutexLock lock(&mutex_);
  if (serving_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("not serving: ", why_not_));
}

GenerationService::GenerationService(const ServedModel* model, const ServingState* serving,
                                     const Clock* clock, EngineLoop* engine, OutputHub* hub,
                                     bool share_cache_domain)
    : share_cache_domain_(share_cache_domain),
      model_(model),
      serving_(serving),
      clock_(clock),
      engine_(engine),
      hub_(hub),
      pool_(kTokenizerThreads, kMailboxEventsMax) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  Call call{.arrival = clock_->Now(), .tenants = TenantsOf(*context)};
  call.deadline = MonotonicDeadline(context->deadline(), call.arrival);
  std::shared_ptr<GenerateStream> stream;
  auto* reactor = GenerateStream::Start(context, &stream);
  // gRPC frees *request (not the bytes it shares) when the call ends, which a client may cause
  // while the pool has not come to it.
  const bool queued = pool_.Submit([this, bytes = *request, call = std::move(call), stream] {
    const absl::Status begun = Begin(bytes, call, stream);
    if (!begun.ok()) stream->Finish(begun);
  });
  if (!queued) stream->Finish(Overloaded());
  return reactor;
}

absl::Status GenerationService::Begin(const grpc::ByteBuffer& bytes, const Call& call,
                                      const std::shared_ptr<GenerateStream>& stream) {
  v1::GenerateRequest message;
  TUTTI_RETURN_IF_ERROR(ParseMessage(bytes, &message));
  TUTTI_ASSIGN_OR_RETURN(const std::string tenant, TenantOf(message.tenant(), call.tenants));
  TUTTI_ASSIGN_OR_RETURN(BuiltRequest built, BuildRequest(message, *model_));
  TUTTI_RETURN_IF_ERROR(serving_->Check());
  const RequestId first(next_request_.fetch_add(static_cast<uint64_t>(built.n)));
  const int32_t n = built.n;
  if (!built.seed_given) built.request.sampling.set_seed(ChooseSeed());
  built.request.id = first;
  built.request.deadline = call.deadline;
  built.request.tenant = tenants_.Hash(tenant);
  built.request.cache_domain = CacheDomainOf(tenant);
  built.output.seed = built.request.sampling.seed();
  built.output.arrival = call.arrival;
  hub_->Open(first, n, built.output, stream);
  const absl::Status submitted = Submit(built);
  if (!submitted.ok()) {
    hub_->Forget(first, n);
    return submitted;
  }
  // Last: a client that leaves before there is anything to end must not be missed.
  if (!stream->Attach([this, first, n] { Abandon(first, n); })) Abandon(first, n);
  return absl::OkStatus();
}

absl::Status GenerationService::Submit(const BuiltRequest& built) {
  const RequestId first = built.request.id;
  for (int32_t i = 0; i < built.n; ++i) {
    Request request = built.request;
    request.id = IdOfOutput(first, i);
    if (built.n > 1) request.first_output = first;
    request.sampling.set_seed(SeedOfOutput(built.output.seed, i));
    if (engine_->Submit(std::move(request))) continue;
    for (int32_t taken = 0; taken < i; ++taken) {
      engine_->Cancel(IdOfOutput(first, taken), CancelCause::kClientGone);
    }
    return Overloaded();
  }
  return absl::OkStatus();
}

void GenerationService::Abandon(RequestId first, int32_t n) {
  for (int32_t i = 0; i < n; ++i) engine_->Cancel(IdOfOutput(first, i), CancelCause::kClientGone);
  hub_->Forget(first, n);
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  auto* reactor = context->DefaultReactor();
  // A unary call's messages live until its reactor has finished, also after the client has left.
  const bool queued = pool_.Submit([this, request, response, reactor] {
    v1::TokenizeResponse message;
    const absl::Status filled = FillTokens(*request, &message);
    *response = Serialize(message);
    reactor->Finish(ToGrpc(filled));
  });
  if (!queued) reactor->Finish(ToGrpc(Overloaded()));
  return reactor;
}

absl::Status GenerationService::FillTokens(const grpc::ByteBuffer& bytes,
                                           v1::TokenizeResponse* response) const {
  v1::TokenizeRequest request;
  TUTTI_RETURN_IF_ERROR(ParseMessage(bytes, &request));
  TUTTI_RETURN_IF_ERROR(CheckModelName(request.model(), *model_));
  std::vector<TokenId> ids;
  switch (request.prompt_case()) {
    case v1::TokenizeRequest::kText: {
      TUTTI_ASSIGN_OR_RETURN(ids, model_->EncodeText(request.text(), "text"));
      break;
    }
    case v1::TokenizeRequest::kChat: {
      TUTTI_ASSIGN_OR_RETURN(ids, model_->EncodeChat(request.chat(), "chat"));
      break;
    }
    case v1::TokenizeRequest::PROMPT_NOT_SET:
      return absl::InvalidArgumentError("one of text and chat must be set");
  }
  for (const TokenId id : ids) {
    response->add_ids(id);
    response->add_tokens(std::string(model_->tokenizer->TokenText(id).value_or("")));
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const v1::GetModelRequest* request,
                                                      v1::GetModelResponse* response) {
  response->set_name(model_->name);
  response->set_architecture(model_->config.architecture);
  response->set_fingerprint(model_->fingerprint);
  response->set_context_length(static_cast<uint32_t>(model_->max_model_len));
  response->set_vocab_size(static_cast<uint32_t>(model_->config.vocab_size));
  response->set_dtype(std::string(DTypeName(model_->config.dtype)));
  for (const int32_t id : model_->generation.eos_token_ids) response->add_eos_token_ids(id);
  auto* reactor = context->DefaultReactor();
  // Which class computes is the engine's to know.
  engine_->GetStatus([reactor, response](const v1::GetStatusResponse& status) {
    if (status.pipelines_size() > 0) {
      response->set_numerics_class(status.pipelines(0).numerics_class());
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

}  // namespace tutti::coordinator
