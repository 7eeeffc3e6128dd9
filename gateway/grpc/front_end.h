// A protocol that the gRPC port speaks: a service whose calls go through AdmittedCalls, and whose
// requests for generated text go through Forwarder.
#pragma once

#include <memory>
#include <vector>

#include "door/grpc/raw_service.h"
#include "gateway/grpc/admitted_calls.h"
#include "gateway/grpc/forwarder.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

class FrontEnd : public door::RawService {
 public:
  using RawService::RawService;
  // What is open ends with the requests that are under way.  REQUIRES: AdmittedCalls drains
  // Thread: any.
  virtual void Drain() {}
};

// All of them, one row each.  REQUIRES: everything outlives them
std::vector<std::unique_ptr<FrontEnd>> MakeFrontEnds(Upstream* upstream, Forwarder* forwarder,
                                                     AdmittedCalls* calls);

}  // namespace tutti::gateway
