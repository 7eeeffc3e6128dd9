#include "coordinator/admin_service.h"

#include <utility>

namespace tutti {

grpc::ServerUnaryReactor* AdminService::GetStatus(grpc::CallbackServerContext* context,
                                                  const v1::GetStatusRequest* request,
                                                  v1::GetStatusResponse* response) {
  auto* reactor = context->DefaultReactor();
  // The engine's thread fills it in; the messages live until the reactor finished.
  engine_->GetStatus([reactor, response](v1::GetStatusResponse status) {
    *response = std::move(status);
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

}  // namespace tutti
