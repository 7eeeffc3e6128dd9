// Work for callers of HTTP on threads that may block, and its way back to the loop.
//
// A job holds what it needs, the bytes charged for it among that, until it has run or its caller
// has gone: then nobody waits for it, and it is dropped, or its call of the service ends.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <functional>

#include "client/cancel_token.h"
#include "gateway/http/server.h"
#include "gateway/service/caller.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

class LoopJobs {
 public:
  // The rest of a job, on the loop.
  using Rest = std::function<void()>;
  // A call of the service takes the token.  Thread: of a lane.
  using Job = std::function<Rest(client::CancelToken*)>;

  explicit LoopJobs(Upstream* upstream) : upstream_(upstream) {}
  // Called before any job.
  void set_server(HttpServer* server) { server_ = server; }

  // Runs `job` on a thread of that lane at the turn of the caller's owner, and what it returns on
  // the loop. `bytes`: of the request. A caller for whose job there is no room, or no memory, is
  // told so.  REQUIRES: until then nobody else listens to whether the caller goes
  void Run(const Caller& caller, Lane lane, int64_t bytes, Job job);

 private:
  Upstream* const upstream_;
  HttpServer* server_ = nullptr;
};

}  // namespace tutti::gateway
