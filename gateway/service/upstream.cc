#include "gateway/service/upstream.h"

#include <utility>

#include "base/thread.h"
#include "gateway/limits.h"
#include "gateway/service/serves_lately.h"
#include "spdlog/spdlog.h"

namespace tutti::gateway {

Upstream::Upstream(std::unique_ptr<client::Client> client)
    : client_(std::move(client)),
      model_(std::make_shared<ModelState>()),
      watcher_(StartThread("the watch of the service", [this] { Watch(); })) {}

Upstream::~Upstream() {
  {
    const MutexLock lock(&mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  cancel_.Cancel();
  watcher_.join();
}

std::shared_ptr<const ModelState> Upstream::model() const {
  const MutexLock lock(&mutex_);
  return model_;
}

void Upstream::Watch() {
  bool was_reachable = true;
  ServesLately lately;
  while (true) {
    auto next = std::make_shared<ModelState>();
    auto got = client_->GetModel({.timeout = kModelTimeout, .cancel = &cancel_});
    next->reachable = got.ok();
    if (got.ok()) {
      next->model = *got;
      next->form = FormOfTemplate(got->chat_template());
    }
    if (next->reachable != was_reachable) {
      if (got.ok()) spdlog::info("the service behind serves model '{}'", next->model.name());
      if (!got.ok())
        spdlog::warn("the service behind cannot be reached: {}",
                     std::string(got.status().message()));
    }
    was_reachable = next->reachable;
    const Instant now = SystemClock().Now();
    next->serves_lately = lately.Update(got.ok() && !got->numerics_class().empty(), now);
    const Instant until = now + (next->ready() ? kModelPoll : kModelPollWhileLost);
    const MutexLock lock(&mutex_);
    if (!next->reachable) {
      next->model = model_->model;
      next->form = model_->form;
    }
    model_ = std::move(next);
    while (!ending_ && changed_.WaitUntil(&mutex_, until)) {
    }
    if (ending_) return;
  }
}

}  // namespace tutti::gateway
