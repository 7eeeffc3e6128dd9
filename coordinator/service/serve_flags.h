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
#include "program/daemon.h"
#include "program/flags.h"

namespace tutti::coordinator {

struct ServeFlags {
  std::string model;
  std::string revision;
  std::string draft_model;
  std::string served_model_name;
  std::string certificate_folder;
  std::string chat_template;
  std::string metrics_alias;
  std::string partial_recompute = "on";
  std::string speculation;  // "": as there is a draft model or not
  model::QuantiseChoice quantise;
  int32_t max_model_len = 0;
  DaemonFlags daemon;
  LayoutFlags layout;
  LeaseFlags lease;
  CoordinatorOptions options;
};

void AddServeFlags(FlagSet* set, ServeFlags* flags);

// Fills in what --certs says: files that were not given, and ports on all addresses in place of
// those on this machine only. INVALID_ARGUMENT: that folder lacks something. After `set` is parsed.
absl::Status ReadCertificateFolder(const FlagSet& set, ServeFlags* flags);

}  // namespace tutti::coordinator
