// Work for callers of HTTP on threads that may block, and its way back to the loop.
//
// Thread: the server's loop.
#pragma once

#include <functional>

#include "gateway/http/server.h"
#include "gateway/service/caller.h"
#include "gateway/service/upstream.h"

namespace tutti::gateway {

class LoopJobs {
 public:
  // The rest of a job, on the loop.
  using Rest = std::function<void()>;

  explicit LoopJobs(Upstream* upstream) : upstream_(upstream) {}
  // Called before any job.
  void set_server(HttpServer* server) { server_ = server; }

  // Runs `job` on a thread of that lane, and what it returns on the loop. A caller for whose job
  // there is no room is told so.
  void Run(const Caller& caller, Lane lane, std::function<Rest()> job);

 private:
  Upstream* const upstream_;
  HttpServer* server_ = nullptr;
};

}  // namespace tutti::gateway
