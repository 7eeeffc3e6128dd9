// The service behind: the client of it, what is known of its model, and threads for calls that
// block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "client/client.h"
#include "gateway/parse/answer_form.h"
#include "gateway/service/work_lanes.h"

namespace tutti::gateway {

// The facts in the last answer to GetModel.
struct ModelState {
  v1::GetModelResponse model;  // empty until the first
  AnswerForm form;             // of its chat template
  bool reachable = false;
  bool known() const { return !model.name().empty(); }
  bool serves_lately = false;  // ServesLately
  // The service takes this gateway for one, which asks for tenants.
  bool may_name_tenants = true;
  bool ready() const { return reachable && serves_lately; }
};

// Thread: any.
class Upstream {
 public:
  // `has_tenants`: its callers have keys, each a tenant's.
  Upstream(std::unique_ptr<client::Client> client, bool has_tenants);
  ~Upstream();  // REQUIRES: no call is under way

  client::Client* client() { return client_.get(); }
  std::shared_ptr<const ModelState> model() const;

  // Runs `job` on a thread that may block: as WorkLanes::Run.
  bool Run(Lane lane, const std::string& owner, int64_t bytes, std::function<void()> job) {
    return lanes_.Run(lane, owner, bytes, std::move(job));
  }

  // `done` is called once, when the service is ready for the first time, soon: on the thread that
  // watches it, or on the caller's where it is already.
  void OnFirstReady(std::function<void()> done);

  // Jobs that run have ended after this, and none runs any more.  Thread: the owner's.
  void StopWork() { lanes_.Stop(); }

  // Calls of Generate under way.
  std::atomic<int64_t> calls{0};

 private:
  void Watch();
  // Says what the operator should know, once.
  void Tell(const ModelState& next, const ModelState& last, const absl::Status& got) const;

  const std::unique_ptr<client::Client> client_;
  const bool has_tenants_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const ModelState> model_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_first_ready_ ABSL_GUARDED_BY(mutex_);
  client::CancelToken cancel_;  // of the watcher's call
  std::thread watcher_;
  WorkLanes lanes_;  // after all that its jobs use
};

}  // namespace tutti::gateway
