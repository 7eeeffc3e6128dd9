// The time that a simulated worker takes for a step, and what it says of it.
#include <chrono>

#include "tests/support/sim_worker.h"

namespace tutti::tests {

// The step was run in no time; here it takes as long as it will be busy, and the draft model what
// is returned.
Duration SimWorker::TellPace(Duration computing) {
  const auto us = [](Duration time) { return time / std::chrono::microseconds(1); };
  Duration drafting{};
  for (Outgoing& out : outgoing_) {
    if (out.frame.has_step_done()) out.frame.mutable_step_done()->set_compute_us(us(computing));
    if (!out.frame.has_step_result()) continue;
    v1::StepDone* const done = out.frame.mutable_step_result()->mutable_done();
    done->set_compute_us(us(computing));
    drafting = done->draft_passes() * options_->draft_pass;
    done->set_draft_us(us(drafting));
  }
  return drafting;
}

Duration SimWorker::StepTime() {
  return Duration(random_->Between(options_->step_least.count(), options_->step_most.count())) *
         slow_factor_;
}

}  // namespace tutti::tests
