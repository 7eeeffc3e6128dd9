// GenerationService::Generate: from a client's message to outputs of the engine.
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "coordinator/requests/not_serving.h"
#include "coordinator/service/generation_service.h"
#include "coordinator/service/prompt_reasoning.h"
#include "coordinator/service/resume_builder.h"
#include "door/grpc/message_parser.h"

namespace tutti::coordinator {
namespace {

// A seed for a client that gave none. Not secret; only unlikely to repeat.
uint64_t ChooseSeed() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

// The client's, or that of the request whose answer this one goes on with.
void SetSeed(const std::optional<RunningRequests::Running>& taken_over, BuiltRequest* built) {
  if (!built->seed_given) {
    built->request.sampling.set_seed(taken_over ? taken_over->seed : ChooseSeed());
  }
  built->output.seed = built->request.sampling.seed();
}

// Bytes of the token ids that the engine will hold, and of sources of grammars.
int64_t HeldBytes(const BuiltRequest& built) {
  const v1::SequenceSampling& sampling = built.request.sampling;
  size_t of_output = built.request.prompt.size() + static_cast<size_t>(sampling.end_ids_size()) +
                     static_cast<size_t>(sampling.allowed_ids_size());
  for (const v1::BannedTokens& banned : sampling.banned()) {
    of_output += static_cast<size_t>(banned.ids_size());
  }
  size_t ids = of_output * static_cast<size_t>(built.n);
  for (const OutputStart& start : built.starts) ids += start.ids.size();
  const size_t grammar = sampling.grammar().text().size() * static_cast<size_t>(built.n);
  return static_cast<int64_t>(ids * sizeof(TokenId) + grammar);
}

}  // namespace

absl::StatusOr<BuiltRequest> GenerationService::Build(v1::GenerateRequest* message,
                                                      const Call& call, bool patient,
                                                      StreamBeginning* beginning) {
  TUTTI_ASSIGN_OR_RETURN(const std::string tenant,
                         door::TenantOf(message->tenant(), call.tenants, call.rights));
  TUTTI_RETURN_IF_ERROR(door::CheckHurry(message->priority(), call.rights));
  ResumeClaims& claims = beginning->claims;
  claims.tenant = resume_tokens_->HashTenant(tenant);
  claims.model = resume_tokens_->HashModel(model_->ServedFingerprint());
  std::optional<ResumeClaims> given;
  if (message->has_resume()) {
    TUTTI_ASSIGN_OR_RETURN(given, resume_tokens_->Open(message->resume().token()));
    claims.body = resume_tokens_->HashBody(message);
    TUTTI_RETURN_IF_ERROR(CheckSameRequest(*given, claims));
  }
  auto read =
      BuildRequest(*message, *model_,
                   {.known = &known_grammars_,
                    .work_max = patient ? grammar::kBuildWorkMax : grammar::kQuickBuildWork});
  if (!read.ok()) {
    if (absl::StartsWith(read.status().message(), "grammar")) grammars_->CountRefused();
    return read.status();
  }
  BuiltRequest built = *std::move(read);
  if (!given.has_value()) claims.body = resume_tokens_->HashBody(message);
  claims.meaning = resume_tokens_->HashMeaning(built.request);
  if (given.has_value()) {
    TUTTI_RETURN_IF_ERROR(CheckSameMeaning(*given, claims.meaning));
    TUTTI_RETURN_IF_ERROR(BuildResume(message->resume(), *given, *model_, &built));
    claims = *std::move(given);
  }
  built.tenant = tenants_.Hash(tenant);
  if (!built.grammar_digest.empty()) {
    TUTTI_ASSIGN_OR_RETURN(
        beginning->grammar,
        grammars_->Add(built.tenant, built.grammar_digest,
                       static_cast<int64_t>(built.request.sampling.grammar().text().size())));
  }
  built.request.cache_domain = tenants_.HashSalt(CacheDomainOf(tenant), message->cache_salt());
  beginning->fingerprint = model_->ServedFingerprint();
  beginning->prompt_tokens = static_cast<int32_t>(built.request.prompt.size());
  beginning->in_reasoning =
      model_->tokenizer != nullptr &&
      ReasoningOf(built.request.prompt, *model_->tokenizer) == PromptReasoning::kOpened;
  beginning->tokens = resume_tokens_;
  return built;
}

absl::Status GenerationService::Generate(door::ReceivedRequest received, const Call& call,
                                         const std::shared_ptr<door::GenerateStream>& stream,
                                         bool patient) {
  v1::GenerateRequest message;
  TUTTI_RETURN_IF_ERROR(door::ParseMessage(received.bytes, &message));
  if (patient || !message.has_grammar()) received.bytes.Clear();
  stream->Identify(message.request_id(), RequestId(), {});
  TUTTI_ASSIGN_OR_RETURN(std::string account, door::AccountOf(call.accounts, call.rights));
  StreamBeginning beginning;
  auto read = Build(&message, call, patient, &beginning);
  if (absl::IsAborted(read.status()) && !patient) {
    return GenerateLater(std::move(received), beginning.claims.tenant, call, stream);
  }
  TUTTI_RETURN_IF_ERROR(read.status());
  received.bytes.Clear();
  BuiltCall built = {.name = message.request_id(),
                     .account = std::move(account),
                     .request = *std::move(read),
                     .beginning = std::move(beginning),
                     .charge = std::move(received.charge)};
  built.request.request.deadline = call.deadline;
  built.request.output.arrival = call.arrival;
  if (!patient) return Enter(std::move(built), stream);
  // Others wait for what is locked from here on, and not at the priority of this thread.
  const auto kept = std::make_shared<BuiltCall>(std::move(built));
  ++waiting_;
  const std::shared_ptr<void> waits(nullptr, [this](void*) { --waiting_; });
  const auto enter = [this, kept, stream, waits] {
    if (stream->ended()) return;
    const absl::Status entered =
        door::WithinMemory([&] { return Enter(std::move(*kept), stream); });
    if (!entered.ok()) stream->End(entered);
  };
  if (pool_.Submit({.client = stream->client(), .run = enter})) return absl::OkStatus();
  return door::Overloaded("too many requests arrive at once");
}

absl::Status GenerationService::Enter(BuiltCall call,
                                      const std::shared_ptr<door::GenerateStream>& stream) {
  BuiltRequest& built = call.request;
  TUTTI_RETURN_IF_ERROR(serving_->Check());
  // From here on the prompt is held, once for each output, instead of the message.
  if (!call.charge.Resize(HeldBytes(built))) {
    return door::Overloaded("the coordinator holds as many prompts for this client as it may now");
  }
  built.request.owner = tenants_.HashOwner(built.tenant, call.account, stream->client());
  const int32_t n = built.n;
  const RequestId first(next_request_.fetch_add(static_cast<uint64_t>(n)));
  built.request.id = first;
  stream->Identify(call.name, first, built.tenant);
  const absl::Status begun = Begin(call.name, &built, std::move(call.beginning), stream);
  if (!begun.ok()) {
    Abandon(first, n);
    return begun;
  }
  // Last: a client that leaves before there is anything to end must not be missed.
  const bool wanted =
      stream->Attach(n, std::move(call.charge), [this, first, n] { Abandon(first, n); });
  if (!wanted) Abandon(first, n);
  return absl::OkStatus();
}

absl::Status GenerationService::GenerateLater(door::ReceivedRequest received, const Hash128& tenant,
                                              const Call& call,
                                              const std::shared_ptr<door::GenerateStream>& stream) {
  const auto bytes = static_cast<int64_t>(received.bytes.Length());
  ++waiting_;
  const std::shared_ptr<void> waits(nullptr, [this](void*) { --waiting_; });
  const auto kept = std::make_shared<door::ReceivedRequest>(std::move(received));
  const auto work = [this, call, stream, waits](door::ReceivedRequest again) {
    if (draining_) return ShuttingDown();
    return Generate(std::move(again), call, stream, /*patient=*/true);
  };
  const bool queued =
      patient_pool_.Submit({.client = stream->client(),
                            .owner = absl::StrCat(tenant.high, " ", tenant.low),
                            .bytes = bytes,
                            .run = [this, call, stream, kept, work] {
                              WorkOn(stream.get(), call.deadline, std::move(*kept), work);
                            }});
  if (queued) return absl::OkStatus();
  return door::Overloaded("as many grammars that take long to make wait as may");
}

absl::Status GenerationService::Begin(const std::string& name, BuiltRequest* built,
                                      StreamBeginning beginning,
                                      const std::shared_ptr<door::GenerateStream>& stream) {
  if (name.empty()) {
    SetSeed(std::nullopt, built);
    return Open(std::nullopt, built, std::move(beginning), stream);
  }
  const RunningRequests::Name full{.owner = built->request.owner, .id = name};
  // Until the engine has the request.
  const MutexLock lock(named_->mutex());
  TUTTI_ASSIGN_OR_RETURN(const std::optional<RunningRequests::Running> taken_over,
                         named_->Find(full, beginning.claims.body));
  SetSeed(taken_over, built);
  beginning.name = named_->Add(full, {.body = beginning.claims.body,
                                      .first = built->request.id,
                                      .outputs = built->n,
                                      .seed = built->output.seed});
  return Open(taken_over, built, std::move(beginning), stream);
}

absl::Status GenerationService::Open(const std::optional<RunningRequests::Running>& taken_over,
                                     BuiltRequest* built, StreamBeginning beginning,
                                     const std::shared_ptr<door::GenerateStream>& stream) {
  beginning.claims.seed = built->output.seed;
  built->output.beginning = std::make_shared<const StreamBeginning>(std::move(beginning));
  hub_->Open(built->request.id, built->n, built->output, stream);
  return door::WithinMemory([&] { return Submit(*built, taken_over); });
}

absl::Status GenerationService::Submit(const BuiltRequest& built,
                                       const std::optional<RunningRequests::Running>& taken_over) {
  const RequestId first = built.request.id;
  std::vector<Request> requests;
  for (int32_t i = 0; i < built.n; ++i) {
    const OutputStart* const start = built.starts.empty() ? nullptr : &built.starts[i];
    if (start != nullptr && start->finished) continue;
    const RequestId id = IdOfOutput(first, i);
    if (start != nullptr && start->ended.has_value()) {
      hub_->Finish({.request = id,
                    .cause = *start->ended,
                    .prompt_tokens = static_cast<int32_t>(built.request.prompt.size())});
      continue;
    }
    Request& request = requests.emplace_back(built.request);
    request.id = id;
    if (built.n > 1) request.first_output = requests.front().id;
    if (start != nullptr) request.output = start->ids;
    if (taken_over && i < taken_over->outputs) request.replaces = IdOfOutput(taken_over->first, i);
    request.sampling.set_seed(SeedOfOutput(built.output.seed, i));
  }
  if (requests.empty()) {
    for (int32_t i = 0; taken_over && i < taken_over->outputs; ++i) {
      engine_->Cancel(IdOfOutput(taken_over->first, i), CancelCause::kTakenOver);
    }
    return absl::OkStatus();
  }
  RequestArrived arrived{.request = std::move(requests.front())};
  arrived.others.assign(std::make_move_iterator(requests.begin() + 1),
                        std::make_move_iterator(requests.end()));
  if (taken_over) {
    arrived.taken_over = taken_over->first;
    arrived.taken_over_outputs = taken_over->outputs;
  }
  if (engine_->Submit(std::move(arrived))) return absl::OkStatus();
  return door::Overloaded("too many requests arrive at once");
}

void GenerationService::Abandon(RequestId first, int32_t n) {
  for (int32_t i = 0; i < n; ++i) engine_->Cancel(IdOfOutput(first, i), CancelCause::kClientGone);
  hub_->Forget(first, n);
}

}  // namespace tutti::coordinator
