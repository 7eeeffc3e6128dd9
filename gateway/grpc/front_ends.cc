#include "gateway/grpc/front_end.h"
#include "gateway/grpc/inference_service.h"
#include "gateway/kserve/grpc/kserve_service.h"
#include "gateway/vllm/grpc/vllm_service.h"

namespace tutti::gateway {

std::vector<std::unique_ptr<FrontEnd>> MakeFrontEnds(Upstream* upstream, Forwarder* forwarder,
                                                     AdmittedCalls* calls) {
  std::vector<std::unique_ptr<FrontEnd>> all;
  all.push_back(std::make_unique<InferenceService>(upstream, forwarder, calls));
  all.push_back(std::make_unique<KserveService>(upstream, forwarder, calls));
  all.push_back(std::make_unique<VllmService>(upstream, forwarder, calls));
  return all;
}

}  // namespace tutti::gateway
