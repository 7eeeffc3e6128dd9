// The flags of tutti-coordinator.
//
// Thread: the main one.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/service/lease_flags.h"
#include "coordinator/service/serve_layout.h"
#include "program/flags.h"

namespace tutti::coordinator {

struct ServeFlags {
  std::string model;
  std::string served_model_name;
  std::string certificate_folder;
  std::string chat_template;
  std::string metrics_alias;
  std::string log_level = "info";
  std::string log_format = "text";
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
  LayoutFlags layout;
  LeaseFlags lease;
  CoordinatorOptions options;
};

void AddServeFlags(FlagSet* set, ServeFlags* flags);

// Fills in what --certs says: files that were not given, and ports on all addresses in place of
// those on this machine only. INVALID_ARGUMENT: that folder lacks something. After `set` is parsed.
absl::Status ReadCertificateFolder(const FlagSet& set, ServeFlags* flags);

}  // namespace tutti::coordinator
