#include "coordinator/service/admin_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plain_name.h"
#include "coordinator/service/prompt_requests.h"
#include "door/door.h"
#include "door/grpc/client_call.h"
#include "door/grpc/message_parser.h"
#include "door/tenant.h"

namespace tutti::coordinator {
namespace {

// An operator looks up one prompt at a time.
constexpr int kLookupThreads = 1;
constexpr size_t kLookupsMax = 64;

}  // namespace

AdminService::AdminService(const ServedModel* model, EngineLoop* engine, const door::Door* door,
                           DomainOf domain_of)
    : model_(model),
      engine_(engine),
      door_(door),
      domain_of_(std::move(domain_of)),
      pool_({.any = kLookupThreads}, kLookupsMax) {}

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
      pool_.Submit([this, request, response, reactor, tenants = door::TenantsOf(*context)] {
        Lookup lookup;
        const absl::Status read = door::WithinMemory([&]() -> absl::Status {
          v1::LookupPrefixRequest message;
          TUTTI_RETURN_IF_ERROR(door::ParseMessage(*request, &message));
          TUTTI_ASSIGN_OR_RETURN(lookup, ReadLookup(message, tenants, *model_));
          return absl::OkStatus();
        });
        if (!read.ok()) return reactor->Finish(door::ToGrpc(read));
        engine_->LookupPrefix(domain_of_(lookup.tenant), std::move(lookup.tokens),
                              [reactor, response](const v1::LookupPrefixResponse& found) {
                                *response = door::Serialize(found);
                                reactor->Finish(grpc::Status::OK);
                              });
      });
  if (!queued) {
    reactor->Finish(door::ToGrpc(absl::ResourceExhaustedError(
        absl::StrCat(kLookupsMax, " prompts are being looked up already"))));
  }
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::DrainWorker(grpc::CallbackServerContext* context,
                                                    const v1::DrainWorkerRequest* request,
                                                    v1::DrainWorkerResponse* response) {
  auto* reactor = context->DefaultReactor();
  if (!IsPlainName(request->worker_id())) {
    reactor->Finish(
        door::ToGrpc(absl::InvalidArgumentError("worker_id is not the name of a worker")));
    return reactor;
  }
  engine_->DrainWorker(*request, [reactor, response](absl::StatusOr<std::string> state) {
    if (state.ok()) response->set_state(*std::move(state));
    reactor->Finish(door::ToGrpc(state.status()));
  });
  return reactor;
}

}  // namespace tutti::coordinator
