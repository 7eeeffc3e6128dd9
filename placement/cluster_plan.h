// How a whole cluster serves a model: how many pipelines, of how many stages, of how many ranks.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"
#include "placement/placement.h"

namespace tutti::placement {

struct Layout {
  int32_t stages = 0;
  int32_t ranks = 0;  // of every stage
  int32_t pipelines = 0;
  int64_t devices() const { return int64_t{stages} * ranks * pipelines; }
  bool operator==(const Layout&) const = default;
};
// "2 pipelines of 3 stages of 4 ranks"; what there is one of is left out.
std::string DescribeLayout(const Layout& layout);

struct ClusterOptions {
  // num_stages and num_ranks in it: 0 means that the search decides.
  PlacementOptions placement;
  int32_t num_pipelines = 0;  // 0: the search decides
};

// One way that was looked at.
struct LayoutTried {
  Layout layout;
  bool largest_first = false;  // the devices ordered by memory and speed, not as given
  bool fits = false;
  int64_t lacking_bytes = 0;  // when not: on the device that lacks most of what one layer or an
                              // even share of them needs
  std::string lacking_device;
  double tokens_per_second = 0;  // of all pipelines; for comparison only where speeds are unknown
  int64_t kv_tokens = 0;         // of all pipelines
};

struct ClusterPlan {
  std::vector<Placement> pipelines;
  LayoutTried chosen;
  std::vector<LayoutTried>
      rejected;               // the best first, then what does not fit, the least lack first
  bool speeds_known = false;  // of all devices
};

// The layout whose pipelines together have the highest pace with max_sequences sequences, and with
// as few ranks, stages and pipelines as come within kSimplerLayoutShare of it. Pipelines take
// devices one after another, stages within them, ranks within those, so neighbours in the list
// should be neighbours in the rack; where devices differ, largest first is tried too.
//
// Ten thousand devices and a thousand layers take less than a second: of many pipelines a sample is
// looked at while layouts are compared.
//
// Errors are those of PlacePipeline.
inline constexpr double kSimplerLayoutShare = 0.03;
absl::StatusOr<ClusterPlan> PlanCluster(const model::ModelConfig& model,
                                        const std::vector<DeviceSpec>& devices,
                                        const ClusterOptions& options);

}  // namespace tutti::placement
