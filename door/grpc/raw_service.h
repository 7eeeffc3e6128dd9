// A service whose methods receive raw bytes and read them under the door's bounds, as if both sides
// streamed, which is the same on the wire: see client_call.h. What does not parse is answered with
// the field at fault (message_parser.h) instead of gRPC's empty status.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "door/grpc/client_call.h"

namespace tutti::door {

class RawService : public grpc::Service {
 public:
  const google::protobuf::ServiceDescriptor* descriptor() const { return service_; }

 protected:
  using Reactor = ClientCall::Reactor;
  // Begins a call; the result frees itself when gRPC is done with the call.  Thread: gRPC's.
  using BeginCall = std::function<Reactor*(grpc::CallbackServerContext*)>;

  // `service`: of the file that describes it.
  explicit RawService(const google::protobuf::ServiceDescriptor* service) : service_(service) {}

  // Serves a method by `begin`. Those of the service that are never named here gRPC refuses.
  // REQUIRES: the service has the method; before the server starts
  void Serve(const std::string& method, BeginCall begin) {
    const auto index = static_cast<int>(paths_.size());
    // gRPC keeps the pointer to the name.
    paths_.push_back("/" + service_->full_name() + "/" +
                     service_->FindMethodByName(method)->name());
    AddMethod(new grpc::internal::RpcServiceMethod(
        paths_.back().c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodRawCallback(
        index, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
                   std::move(begin)));
  }

 private:
  const google::protobuf::ServiceDescriptor* const service_;
  std::deque<std::string> paths_;
};

}  // namespace tutti::door
