// tutti.v1.Admin over gRPC: status and cache look-ups. Its callers are operators, as the port of
// operator_server.h makes sure; they may look into any tenant's cache domain.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sip_hash.h"
#include "coordinator/service/engine_loop.h"
#include "coordinator/service/served_model.h"
#include "door/door.h"
#include "door/work_pool.h"
#include "tutti/v1/cluster.grpc.pb.h"

namespace tutti::coordinator {

// LookupPrefix receives raw bytes, as Generate does, so that a message that does not parse is
// answered with the field at fault.
class AdminService
    : public v1::Admin::WithRawCallbackMethod_LookupPrefix<v1::Admin::WithCallbackMethod_GetStatus<
          v1::Admin::WithCallbackMethod_DrainWorker<v1::Admin::Service>>> {
 public:
  // The cache domain of a tenant's requests.  Thread: any.
  using DomainOf = std::function<Hash128(std::string_view tenant)>;

  // REQUIRES: `model`, `engine`, `door` and everything that `domain_of` uses outlive the service.
  AdminService(const ServedModel* model, EngineLoop* engine, const door::Door* door,
               DomainOf domain_of);

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerUnaryReactor* LookupPrefix(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override;

 private:
  const ServedModel* const model_;
  EngineLoop* const engine_;
  const door::Door* const door_;
  const DomainOf domain_of_;
  door::WorkPool pool_;
};

}  // namespace tutti::coordinator
