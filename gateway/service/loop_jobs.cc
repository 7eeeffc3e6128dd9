#include "gateway/service/loop_jobs.h"

#include <utility>

#include "gateway/api_error.h"

namespace tutti::gateway {

void LoopJobs::Run(const Caller& caller, Lane lane, std::function<Rest()> job) {
  const bool taken =
      upstream_->Run(lane, [server = server_, job = std::move(job)] { server->Post(job()); });
  if (!taken) caller.ReplyError(MakeError(503, "too many requests wait to be read"));
}

}  // namespace tutti::gateway
