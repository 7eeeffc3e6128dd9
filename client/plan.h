// `tutti plan`: what each device would hold, from config.json alone.
//
// The one part of client/ that looks beyond base and proto: placement is pure arithmetic over the
// model's sizes, and the promise is worth something only if it is the coordinator's own. It is a
// target of its own (tutti_plan), so that the library and the other commands cannot use it by
// accident.
#pragma once

#include <string>

#include "base/status.h"
#include "coordinator/placement.h"
#include "model/model_config.h"

namespace tutti {

struct PlanRequest {
  std::string model;  // a folder with a config.json, or the file itself
  std::vector<int64_t> devices;
  PlacementOptions options;
};

struct PlanReport {
  ModelConfig model;
  PlacementPlan plan;
};

// NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED: the configuration, named. RESOURCE_EXHAUSTED: it does
// not fit; the message says where, by how much, and the smallest thing that would.
absl::StatusOr<PlanReport> MakePlan(const PlanRequest& request);

std::string RenderPlan(const PlanReport& report);
std::string PlanToJson(const PlanReport& report);

}  // namespace tutti
