// The flags of tutti-coordinator that say how the model is split, and the layout that they, a
// device map and the controller of a LeaderWorkerSet ask for.
//
// Thread: the main one.
#pragma once

#include <string>

#include "base/status.h"
#include "coordinator/engine_options.h"
#include "model/model_config.h"
#include "program/flags.h"

namespace tutti::coordinator {

struct LayoutFlags {
  std::string device_map;
  std::string max_memory;
  std::string stages;  // unset: 1, or as many as a device map or a LeaderWorkerSet says
  std::string ranks;   // unset: 1
  std::string pipelines = "auto";
  std::string layout;
  std::string expert_split = "width";
};

// Numbers of workers are the engine's.
void AddLayoutFlags(FlagSet* set, LayoutFlags* flags, EngineOptions* engine);

// Fills in the layout that the flags ask for. INVALID_ARGUMENT names the flag, also where the model
// cannot be split like that.
absl::Status ReadLayout(const LayoutFlags& flags, const model::ModelConfig& model,
                        EngineOptions* engine);

}  // namespace tutti::coordinator
