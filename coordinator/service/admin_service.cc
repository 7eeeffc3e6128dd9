#include "coordinator/service/admin_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plain_name.h"
#include "coordinator/service/client_call.h"
#include "coordinator/service/door.h"
#include "coordinator/service/message_parser.h"
#include "coordinator/service/tenant.h"

namespace tutti::coordinator {
namespace {

// An operator looks up one prompt at a time.
constexpr int kLookupThreads = 1;
constexpr size_t kLookupsMax = 64;

}  // namespace

AdminService::AdminService(const ServedModel* model, EngineLoop* engine, const Door* door,
                           DomainOf domain_of)
    : model_(model),
      engine_(engine),
      door_(door),
      domain_of_(std::move(domain_of)),
      pool_(kLookupThreads, kLookupsMax) {}

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context,
                                                  const v1::GetStatusRequest* request,
                                                  v1::GetStatusResponse* response) {
  auto* reactor = context->DefaultReactor();
  // The engine's thread fills it in; the messages live until the reactor finished.
  engine_->GetStatus([this, reactor, response](v1::GetStatusResponse status) {
    *response = std::move(status);
    v1::RequestCounters* const counters = response->mutable_requests();
    counters->set_invalid(counters->invalid() + door_->invalid);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::LookupPrefix(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  auto* reactor = context->DefaultReactor();
  // A unary call's messages live until its reactor has finished, also after the client has left.
  const bool queued =
      pool_.Submit([this, request, response, reactor, tenants = TenantsOf(*context)] {
        Hash128 domain;
        std::vector<TokenId> tokens;
        const absl::Status read =
            WithinMemory([&] { return ReadLookup(*request, tenants, &domain, &tokens); });
        if (!read.ok()) return reactor->Finish(ToGrpc(read));
        engine_->LookupPrefix(domain, std::move(tokens),
                              [reactor, response](const v1::LookupPrefixResponse& found) {
                                *response = Serialize(found);
                                reactor->Finish(grpc::Status::OK);
                              });
      });
  if (!queued) {
    reactor->Finish(ToGrpc(absl::ResourceExhaustedError(
        absl::StrCat(kLookupsMax, " prompts are being looked up already"))));
  }
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::DrainWorker(grpc::CallbackServerContext* context,
                                                    const v1::DrainWorkerRequest* request,
                                                    v1::DrainWorkerResponse* response) {
  auto* reactor = context->DefaultReactor();
  if (!IsPlainName(request->worker_id())) {
    reactor->Finish(ToGrpc(absl::InvalidArgumentError("worker_id is not the name of a worker")));
    return reactor;
  }
  engine_->DrainWorker(*request, [reactor, response](absl::StatusOr<std::string> state) {
    if (state.ok()) response->set_state(*std::move(state));
    reactor->Finish(ToGrpc(state.status()));
  });
  return reactor;
}

absl::Status AdminService::ReadLookup(const grpc::ByteBuffer& bytes,
                                      const std::vector<std::string>& tenants, Hash128* domain,
                                      std::vector<TokenId>* tokens) const {
  v1::LookupPrefixRequest request;
  TUTTI_RETURN_IF_ERROR(ParseMessage(bytes, &request));
  TUTTI_ASSIGN_OR_RETURN(const std::string tenant,
                         TenantOf(request.tenant(), tenants, {.may_name_tenant = true}));
  *domain = domain_of_(tenant);
  switch (request.prompt_case()) {
    case v1::LookupPrefixRequest::kText: {
      TUTTI_ASSIGN_OR_RETURN(*tokens, model_->EncodeText(request.text(), "text"));
      return absl::OkStatus();
    }
    case v1::LookupPrefixRequest::kChat: {
      TUTTI_ASSIGN_OR_RETURN(*tokens, model_->EncodeChat(request.chat(), "chat"));
      return absl::OkStatus();
    }
    case v1::LookupPrefixRequest::kTokenIds:
      // Ids of no vocabulary are found nowhere; that is all there is to say about them.
      tokens->assign(request.token_ids().ids().begin(), request.token_ids().ids().end());
      return absl::OkStatus();
    case v1::LookupPrefixRequest::PROMPT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("one of text, token_ids and chat must be set");
}

}  // namespace tutti::coordinator
