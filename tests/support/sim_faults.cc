#include "tests/support/sim_faults.h"

namespace tutti::tests {

using std::chrono::milliseconds;

namespace {

// Far beyond what is called slow where no speeds are known.
constexpr int32_t kSlowFactor = 20;
// Ten seconds of being slow, and the windows around them.
constexpr Duration kMovedWithin = std::chrono::seconds(25);

}  // namespace

void SimFaults::Schedule() {
  const int64_t span =
      std::chrono::duration_cast<milliseconds>(options_->arrivals_over).count() + 200;
  for (int32_t i = 0; i < options_->faults; ++i) {
    queue_->After(milliseconds(random_.Between(5, span)), [this] { Fault(); });
  }
  if (options_->slow_after > Duration::zero()) {
    queue_->After(options_->slow_after, [this] { SlowOne(); });
  }
  Duration at{};
  for (int32_t i = 0; i < options_->resets; ++i) {
    at += milliseconds(random_.Between(100, 600));
    queue_->After(at, [this] { ResetOne(); });
  }
  if (options_->storm) {
    queue_->After(milliseconds(random_.Between(5, span)), [this] { clients_->Storm(); });
  }
}

void SimFaults::SlowOne() {
  std::vector<SimWorker*> serving;
  for (const auto& worker : *workers_) {
    if (worker->serving()) serving.push_back(worker.get());
  }
  if (serving.empty()) return;
  serving[random_.Between(0, static_cast<int64_t>(serving.size()) - 1)]->SlowDownUntilMoved(
      kSlowFactor, kMovedWithin);
}

// The first one, often, so that the same streams are hit.
void SimFaults::ResetOne() {
  const auto last = static_cast<int64_t>(workers_->size()) - 1;
  SimWorker* const worker = (*workers_)[random_.Chance(0.7) ? 0 : random_.Between(0, last)].get();
  faulty_.insert(worker->id());
  if (random_.Chance(0.8)) return worker->ResetControlLink();
  worker->Hang(milliseconds(random_.Between(1600, 2400)));
}

void SimFaults::Fault() {
  SimWorker* const worker = (*workers_)[random_.Between(0, workers_->size() - 1)].get();
  const auto blame = [this](const SimWorker* one) {
    if (one != nullptr) faulty_.insert(one->id());
  };
  switch (random_.Between(0, options_->ranked() ? 6 : 5)) {
    case 0:
    case 1:
      blame(worker);
      worker->Kill();
      queue_->After(milliseconds(random_.Between(0, 1500)), [worker] { worker->Start(); });
      return;
    case 2:
      blame(worker);
      return worker->Hang(milliseconds(random_.Between(50, 4000)));
    case 3:
      return worker->SlowDown(static_cast<int32_t>(random_.Between(3, 30)),
                              milliseconds(random_.Between(100, 2000)));
    case 4:
      return NoteCut(worker->CutNextLink());
    case 5:
      blame(worker);
      return worker->CutControlLink();
    default:
      if (SimWorker* const deaf = worker->CutRankLink()) {
        NoteCut(deaf);
        blame(worker);
      }
  }
}

void SimFaults::NoteCut(SimWorker* deaf) {
  if (deaf == nullptr) return;
  faulty_.insert(deaf->id());
  if (deaf->up()) cuts_.emplace_back(deaf, deaf->core()->epoch());
}

// A link cut while nothing was to be sent is only noticed when something is, and with several
// pipelines that may be never. An operator starts such a worker again.
void SimFaults::RepairCuts() {
  for (const auto& [worker, epoch] : cuts_) {
    if (!worker->up() || worker->core()->epoch() != epoch) continue;
    worker->Kill();
    worker->Start();
  }
}

}  // namespace tutti::tests
