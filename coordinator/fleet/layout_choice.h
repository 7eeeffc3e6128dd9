// The shape of the pipelines: as the flags say, or, where they leave it open, as the planner
// chooses from the workers that have joined (placement/cluster_plan.h).
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "coordinator/engine_options.h"
#include "placement/cluster_plan.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

struct PipelineShape {
  int32_t num_stages = 0;            // 0: as many as the workers make, in Accelerate's modes
  int32_t num_ranks = 1;             // of every stage
  std::vector<int32_t> stage_ranks;  // of each stage; empty: num_ranks everywhere
  int32_t num_workers = 0;           // that a pipeline is made of; a mode may leave some out
  bool largest_first = false;        // quick and large workers before the others

  int32_t ranks_of(int32_t stage) const {
    return stage_ranks.empty() ? num_ranks : stage_ranks[stage];
  }
};

class LayoutChoice {
 public:
  // REQUIRES: `options` outlives this
  explicit LayoutChoice(const EngineOptions* options);

  // Whether the flags leave something for Choose.
  bool open() const { return open_; }
  // Whether numbers of devices matter, or their order.
  bool orders_devices() const;
  // Null until chosen.
  const std::optional<PipelineShape>& shape() const { return shape_; }

  // Chooses for these devices, in order of their numbers.  REQUIRES: open()
  // Errors are those of PlanCluster; an earlier choice stays as it is.
  absl::Status Choose(const std::vector<placement::DeviceSpec>& devices);

  // "2 stages for 3 devices; rejected: 1 stage (61 % of its speed), ...": of the last choice.
  std::string Describe() const;
  // REQUIRES: something was chosen
  void FillStatus(v1::LayoutChoice* status) const;

 private:
  const EngineOptions* const options_;
  bool open_ = false;
  std::optional<PipelineShape> shape_;
  placement::ClusterPlan plan_;  // of the last choice, without its pipelines
  size_t num_devices_ = 0;
};

// Why a layout was not chosen, beside one that was: "lacks 1,024 bytes on w1", "61 % of its speed".
std::string WhyRejected(const placement::LayoutTried& rejected,
                        const placement::LayoutTried& chosen);

}  // namespace tutti::coordinator
