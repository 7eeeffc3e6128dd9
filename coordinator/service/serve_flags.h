// The flags of tutti-coordinator, and the layout that they and a device map ask for.
//
// Thread: the main one.
#pragma once

#include <cstdint>
#include <string>

#include "base/flags.h"
#include "base/status.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/service/lease_flags.h"
#include "model/model_config.h"

namespace tutti::coordinator {

struct ServeFlags {
  std::string model;
  std::string served_model_name;
  std::string certificate_folder;
  std::string chat_template;
  std::string device_map;
  std::string max_memory;
  std::string stages;  // unset: 1, or as many as a device map says
  std::string ranks;   // unset: 1
  std::string pipelines = "auto";
  std::string layout;
  std::string metrics_alias;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string expert_split = "width";
  std::string partial_recompute = "on";
  std::string kept_rows;  // unset: kKeptRowsLeft
  int32_t max_model_len = 0;
  int64_t lease_ms = 1500;
  int64_t itl_target_ms = 200;
  double max_wait_s = 0;
  double recovery_timeout_s = 60;
  double reform_after_s = 2;
  double drain_timeout_s = 30;
  bool exit_with_parent = false;
  LeaseFlags lease;
  CoordinatorOptions options;
};

void AddServeFlags(FlagSet* set, ServeFlags* flags);

// Fills in what --certs says: files that were not given, and ports on all addresses in place of
// those on this machine only. INVALID_ARGUMENT: that folder lacks something. After `set` is parsed.
absl::Status ReadCertificateFolder(const FlagSet& set, ServeFlags* flags);

// Fills in the layout that the flags ask for. INVALID_ARGUMENT names the flag, also where the model
// cannot be split like that.
absl::Status ReadLayout(const ServeFlags& flags, const model::ModelConfig& model,
                        EngineOptions* engine);

}  // namespace tutti::coordinator
