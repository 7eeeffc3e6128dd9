// The unasked reports of an executor to its coordinator, beside beats: how its links to other
// workers stand, and that it was told to stop.
#include <utility>

#include "worker/executor.h"

namespace tutti::worker {

// Reports on this epoch, whose links these are.
void Executor::ReportLinks() {
  reports_.clear();
  for (const auto& next : next_) {
    if (std::optional<v1::LinkState> report = next->PopReport()) {
      reports_.push_back(*std::move(report));
    }
  }
  ranks_.PopReports(&reports_);
  for (v1::LinkState& report : reports_) {
    v1::Frame frame;
    frame.set_epoch(linked_epoch_.value());
    *frame.mutable_link_state() = std::move(report);
    coordinator_.Send(std::move(frame));
  }
}

// Once to each coordinator that it joins.
void Executor::SayLeaving() {
  if (!leaving_.has_value() || !coordinator_.joined() || said_leaving_) return;
  said_leaving_ = true;
  v1::Frame frame;
  frame.set_epoch(stage_.epoch().value());
  frame.mutable_leaving()->set_grace_ms(static_cast<uint32_t>(Milliseconds(*leaving_)));
  coordinator_.Send(std::move(frame));
}

void Executor::WriteMetrics(metrics::Exposition* to) const {
  metrics_.WriteInfo(options_.hello, to);
  metrics_.Write(position_, to);
  const ShardFetch* const fetch = options_.fetch;
  to->Single("tutti_worker_fetched_bytes_total", metrics::Kind::kCounter,
             "Bytes of the checkpoint that came over the link.",
             fetch == nullptr ? 0.0 : static_cast<double>(fetch->fetched_bytes()));
  to->Single("tutti_worker_wrong_chunks_total", metrics::Kind::kCounter,
             "Chunks of the checkpoint that came with other bytes, and were asked for again.",
             fetch == nullptr ? 0.0 : static_cast<double>(fetch->wrong_chunks()));
}

}  // namespace tutti::worker
