// `tutti plan`: the predicted memory and speed of each device, from config.json alone.
//
// The one part of client/ that looks beyond base and proto: placement is pure arithmetic over the
// model's sizes, and the promise is worth something only if it is the coordinator's own. It is a
// target of its own (tutti_plan), so that the library and the other commands cannot use it by
// accident.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"
#include "placement/cluster_plan.h"
#include "placement/max_memory.h"
#include "placement/placement_prediction.h"

namespace tutti::client {

struct PlanRequest {
  std::string model;  // a folder with a config.json, or the file itself
  std::vector<placement::DeviceSpec> devices;
  placement::MaxMemory max_memory;  // empty: all of each device
  std::string device_map;           // "", a mode of Accelerate, or a file of module names
  placement::ClusterOptions options;
  bool whole_experts = false;      // --expert-split expert
  model::QuantiseChoice quantise;  // --quantize, --quantize-head
  std::string draft_model;         // as model; "": none
  bool cublas = false;             // GPUs multiply many rows by cuBLASLt
  int64_t kept_rows_bytes = 0;     // of each CPU's memory, set apart before layers are placed
};

struct PlanReport {
  model::ModelConfig model;
  placement::ClusterOptions options;
  placement::ClusterPlan plan;
  std::vector<placement::PlacementPrediction> predictions;  // of each pipeline
  std::vector<std::string> notes;                           // flags that were interpreted, and how
};

// NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED: the configuration, the map or a limit, named.
// RESOURCE_EXHAUSTED: it does not fit; the message says where, by how many bytes, and the smallest
// thing that would.
absl::StatusOr<PlanReport> MakePlan(const PlanRequest& request);

std::string RenderPlan(const PlanReport& report);
std::string PlanToJson(const PlanReport& report);

}  // namespace tutti::client
