// The flags of `tutti up`, and the flags that it derives from them for the programs it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/device_deal.h"
#include "client/limits.h"
#include "client/local_cluster.h"
#include "model/model_config.h"
#include "program/flags.h"

namespace tutti::client {

struct UpFlags {
  LocalClusterOptions cluster;
  std::string device = "auto";
  bool share_devices = false;
  bool gpus = false;    // ResolveUpFlags: whether the workers serve from GPUs
  std::string why_cpu;  // and why not, if nobody has named the CPU
  int64_t memory_per_worker = 0;
  std::string exec;
  std::string ready_file;
  bool verbose = false;
  bool mix_numerics = false;
  bool reasoning_content = false;
  std::string revision;
  std::string draft_model;  // "": none
  std::optional<model::ModelConfig> config;  // FindUpModel: of the model
  std::vector<std::string> notices;          // PassOnOthers: what a person should know
  std::string pipelines;                     // unset: 1, or as --layout says
  int64_t kv_tokens = kLocalKvTokensDefault;
};

void AddUpFlags(FlagSet* set, UpFlags* flags);

// Finds the model that the flags say, and reads its configuration. INVALID_ARGUMENT or NOT_FOUND
// names what is wrong.
absl::Status FindUpModel(UpFlags* flags);

// Adds what is given beside our flags to that of the programs that it is for (passed_on.h). After
// ResolveUpFlags.  INVALID_ARGUMENT names what is for none.
absl::Status PassOnOthers(const FlagSet& set, UpFlags* flags);

// Fills in the flags that were not given, and those of the coordinator and of the workers.
// `machine`: its GPUs, where DealsGpus(flags->device).
// REQUIRES: `set` has been parsed into `flags`. INVALID_ARGUMENT names the flag.
absl::Status ResolveUpFlags(const FlagSet& set, const MachineDevices& machine, UpFlags* flags);

}  // namespace tutti::client
