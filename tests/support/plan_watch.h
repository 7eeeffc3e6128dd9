// Watches what the engine that leads sends to workers: epochs come once and grow, every worker of a
// pipeline gets every step, in order and the same as the others, and each plan can be run.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "proto/peer_messages.h"
#include "tests/support/plan_auditor.h"
#include "tests/support/sim_options.h"
#include "tests/support/sim_report.h"

namespace tutti::tests {

class PlanWatch {
 public:
  // The state of one worker's link.
  struct Link {
    uint32_t pipeline = 0;  // the last it was assigned to
    uint64_t step = 0;      // the last it was told there
  };
  using FailCallback = std::function<void(const std::string&)>;

  // REQUIRES: `options` outlives this
  PlanWatch(const SimOptions* options, FailCallback fail)
      : options_(options), fail_(std::move(fail)) {}

  // A frame that is sent over the worker's link. The rows of a step of which no worker knew before;
  // none: it is no such.
  std::optional<int32_t> Check(const std::string& worker, Link* link, const v1::Frame& frame);
  // A frame that came over such a link.
  void Hear(const Link& link, const v1::Frame& frame);
  // Adds what was seen.
  void Fill(SimReport* report) const;

 private:
  // The plans that a pipeline has been sent.
  struct Audit {
    explicit Audit(const SimOptions* options) : auditor(options) {}
    PlanAuditor auditor;
    uint64_t epoch = 0;
    uint64_t step = 0;
    std::string plan;  // of that step
  };

  std::optional<int32_t> CheckPlan(const std::string& worker, Link* link, const v1::StepPlan& plan);

  const SimOptions* const options_;
  const FailCallback fail_;
  std::map<uint32_t, Audit> audits_;  // by pipeline
  uint64_t last_epoch_ = 0;           // that any pipeline was assigned
  uint64_t epochs_ = 0;
};

}  // namespace tutti::tests
