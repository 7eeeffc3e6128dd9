// Looks over the engine's shoulder: every plan must be one that a pipeline can run and that honours
// the limits.
//
// It keeps its own account of which sequences the workers know and which blocks those hold, from
// the plans alone.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/sim_options.h"
#include "tutti/v1/peer.pb.h"

namespace tutti {

class PlanAuditor {
 public:
  explicit PlanAuditor(const SimOptions* options) : options_(options) {}

  void BeginEpoch(int32_t num_blocks);
  // What is wrong with the plan; empty: nothing.
  std::string Check(const v1::StepPlan& plan);

  uint64_t plans() const { return plans_; }
  uint64_t rows() const { return rows_; }

 private:
  struct Known {
    int32_t tokens = 0;
    int32_t computed = 0;
    int32_t blocks = 0;
  };

  std::string CheckScheduled(const v1::ScheduledSequence& scheduled);

  const SimOptions* const options_;
  int32_t num_blocks_ = 0;
  uint64_t last_step_ = 0;
  std::map<uint64_t, Known> known_;
  std::map<int32_t, uint64_t> owner_;  // of each block
  uint64_t plans_ = 0;
  uint64_t rows_ = 0;
};

}  // namespace tutti
