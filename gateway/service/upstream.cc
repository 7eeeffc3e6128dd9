#include "gateway/service/upstream.h"

#include <utility>

#include "base/thread.h"
#include "gateway/limits.h"
#include "gateway/service/serves_lately.h"
#include "spdlog/spdlog.h"

namespace tutti::gateway {

Upstream::Upstream(std::unique_ptr<client::Client> client, bool has_tenants)
    : client_(std::move(client)),
      has_tenants_(has_tenants),
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

void Upstream::Tell(const ModelState& next, const ModelState& last, const absl::Status& got) const {
  if (next.reachable != last.reachable) {
    if (got.ok()) spdlog::info("the service behind serves model '{}'", next.model.name());
    if (!got.ok()) {
      spdlog::warn("the service behind cannot be reached: {}", std::string(got.message()));
    }
  }
  if (has_tenants_ && !next.may_name_tenants && last.may_name_tenants) {
    spdlog::warn(
        "--api-keys: the coordinator takes this gateway for a client, who asks for one tenant: "
        "keys are served, but share the service's time as one; give this gateway a certificate "
        "(`tutti certs issue --role gateway`, --certs), or the coordinator --public-role gateway");
  }
}

void Upstream::OnFirstReady(std::function<void()> done) {
  {
    const MutexLock lock(&mutex_);
    if (!model_->ready()) {
      on_first_ready_ = std::move(done);
      return;
    }
  }
  done();
}

void Upstream::Watch() {
  ModelState last{.reachable = true};
  ServesLately lately;
  while (true) {
    auto next = std::make_shared<ModelState>();
    auto got = client_->GetModel({.timeout = kModelTimeout, .cancel = &cancel_});
    next->reachable = got.ok();
    next->may_name_tenants = last.may_name_tenants;
    if (got.ok()) {
      next->model = *got;
      next->form = FormOfTemplate(got->chat_template());
      // An older service does not say.
      next->may_name_tenants = !got->has_may_name_tenants() || got->may_name_tenants();
    }
    Tell(*next, last, got.status());
    last.reachable = next->reachable;
    last.may_name_tenants = next->may_name_tenants;
    const Instant now = SystemClock().Now();
    next->serves_lately = lately.Update(got.ok() && !got->numerics_class().empty(), now);
    const Instant until = now + (next->ready() ? kModelPoll : kModelPollWhileLost);
    std::function<void()> on_first_ready;
    {
      const MutexLock lock(&mutex_);
      if (!next->reachable) {
        next->model = model_->model;
        next->form = model_->form;
      }
      if (next->ready()) on_first_ready = std::exchange(on_first_ready_, nullptr);
      model_ = std::move(next);
    }
    if (on_first_ready) on_first_ready();
    const MutexLock lock(&mutex_);
    while (!ending_ && changed_.WaitUntil(&mutex_, until)) {
    }
    if (ending_) return;
  }
}

}  // namespace tutti::gateway
