#include "worker/worker_metrics.h"

#include <algorithm>

namespace tutti::worker {

using metrics::Exposition;
using metrics::Kind;

void WorkerMetrics::Count(const v1::LinkCounters& now, bool new_epoch, Traffic* traffic) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const int64_t bytes_before = new_epoch ? 0 : traffic->seen_bytes.load(kRelaxed);
  const int64_t frames_before = new_epoch ? 0 : traffic->seen_frames.load(kRelaxed);
  traffic->bytes.Add(static_cast<uint64_t>(std::max<int64_t>(now.bytes() - bytes_before, 0)));
  traffic->frames.Add(static_cast<uint64_t>(std::max<int64_t>(now.frames() - frames_before, 0)));
  traffic->seen_bytes.store(now.bytes(), kRelaxed);
  traffic->seen_frames.store(now.frames(), kRelaxed);
}

void WorkerMetrics::OnFrame(const v1::Frame& frame) {
  if (frame.has_failure()) failures_.Add();
  // The last stage reports with its result.
  if (!frame.has_step_done() && !frame.has_step_result()) return;
  const bool new_epoch = frame.epoch() != epoch_;
  epoch_ = frame.epoch();
  if (new_epoch) epochs_.Add();
  const v1::StepDone& done = frame.has_step_done() ? frame.step_done() : frame.step_result().done();
  steps_.Add();
  compute_us_.Add(static_cast<uint64_t>(done.compute_us()));
  wait_us_.Add(static_cast<uint64_t>(done.wait_us()));
  exchange_wait_us_.Add(static_cast<uint64_t>(done.exchange_wait_us()));
  draft_us_.Add(static_cast<uint64_t>(done.draft_us()));
  Count(done.activation_in(), new_epoch, &activation_in_);
  Count(done.activation_out(), new_epoch, &activation_out_);
  Count(done.exchange_in(), new_epoch, &exchange_in_);
  Count(done.exchange_out(), new_epoch, &exchange_out_);
}

void WorkerMetrics::Write(const Position& position, Exposition* to) const {
  to->Single("tutti_worker_steps_total", Kind::kCounter, "Steps done.", steps_.value());
  to->Single("tutti_worker_epochs_total", Kind::kCounter, "Epochs in which it did steps.",
             epochs_.value());
  to->Single("tutti_worker_failures_total", Kind::kCounter, "Failures that it reported.",
             failures_.value());
  to->Single("tutti_worker_compute_seconds_total", Kind::kCounter, "Time spent computing.",
             compute_us_.value() / 1e6);
  to->Single("tutti_worker_wait_seconds_total", Kind::kCounter,
             "Time spent waiting for activations.", wait_us_.value() / 1e6);
  to->Single("tutti_worker_exchange_wait_seconds_total", Kind::kCounter,
             "Time spent waiting for other ranks; part of computing.",
             exchange_wait_us_.value() / 1e6);
  to->Single("tutti_worker_draft_seconds_total", Kind::kCounter,
             "Time of its draft model; no part of computing.", draft_us_.value() / 1e6);
  const struct {
    const char* link;
    const char* direction;
    const Traffic* traffic;
  } links[] = {{"activation", "in", &activation_in_},
               {"activation", "out", &activation_out_},
               {"rank", "in", &exchange_in_},
               {"rank", "out", &exchange_out_}};
  to->Begin("tutti_worker_link_bytes_total", Kind::kCounter, "Bytes over links to workers.");
  for (const auto& link : links) {
    to->Sample({{"link", link.link}, {"direction", link.direction}}, link.traffic->bytes.value());
  }
  to->Begin("tutti_worker_link_frames_total", Kind::kCounter, "Frames over links to workers.");
  for (const auto& link : links) {
    to->Sample({{"link", link.link}, {"direction", link.direction}}, link.traffic->frames.value());
  }
  to->Single("tutti_worker_moves_total", Kind::kCounter, "Pieces of work that its executor did.",
             static_cast<double>(position.moves()));
  const Activity now = position.doing().activity;
  to->Begin("tutti_worker_activity", Kind::kGauge, "1 for what its executor is at, else 0.");
  for (const Activity activity :
       {Activity::kIdle, Activity::kFrames, Activity::kLoading, Activity::kLinks, Activity::kStep,
        Activity::kDraft, Activity::kRank, Activity::kRows}) {
    const std::string_view name = ActivityName(activity);
    to->Sample({{"activity", name.empty() ? "idle" : name}}, activity == now ? 1 : 0);
  }
}

void WorkerMetrics::ComputesIn(const std::string& numerics_class) {
  const MutexLock lock(&mutex_);
  numerics_class_ = numerics_class;
}

void WorkerMetrics::WriteInfo(const v1::Hello& hello, Exposition* to) const {
  std::string numerics_class;
  {
    const MutexLock lock(&mutex_);
    numerics_class = numerics_class_.empty() ? hello.numerics_class() : numerics_class_;
  }
  to->Begin("tutti_worker_info", Kind::kGauge, "1; who this worker is.");
  to->Sample(
      {{"worker", hello.worker_id()}, {"device", hello.device()}, {"numerics", numerics_class}}, 1);
  to->Single("tutti_worker_budget_bytes", Kind::kGauge, "Memory that it may use.",
             static_cast<double>(hello.memory_bytes()));
  to->Single("tutti_worker_threads", Kind::kGauge, "Its compute threads.",
             static_cast<double>(hello.threads()));
}

}  // namespace tutti::worker
