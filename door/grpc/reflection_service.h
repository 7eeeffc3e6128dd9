// Server reflection, version 1: which services the public port has, and the files that describe
// them. gRPC's own has version 1alpha only.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.grpc.pb.h"

namespace tutti::door {

// Answers from the messages that are compiled in; takes one question of a call at a time and holds
// nothing between two.  Thread: gRPC's.
class ReflectionService : public grpc::reflection::v1::ServerReflection::CallbackService {
 public:
  // `names`: the services to list, beside this one.
  explicit ReflectionService(std::vector<std::string> names);

  grpc::ServerBidiReactor<grpc::reflection::v1::ServerReflectionRequest,
                          grpc::reflection::v1::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) override;

 private:
  std::vector<std::string> names_;
};

}  // namespace tutti::door
