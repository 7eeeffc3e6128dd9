// The flags of tutti-worker, and the options that follow from them.
//
// Thread: the main one.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "program/daemon.h"
#include "program/flags.h"
#include "worker/limits.h"
#include "worker/service/worker.h"

namespace tutti::worker {

struct WorkerFlags {
  WorkerOptions worker;
  std::string coordinators;
  std::vector<std::string> peers;
  std::string peers_file;
  std::vector<std::string> peer_networks;
  std::vector<std::string> peer_names;
  std::string certificate_folder;
  std::string speed = "auto";
  std::string tune = "auto";
  std::string device_exchange = "machine";
  std::string cuda_graphs = "on";
  std::string cuda_early_kernels = "on";
  DaemonFlags daemon;
  bool share_devices = false;
};

void AddWorkerFlags(FlagSet* set, WorkerFlags* flags);

// Checks what concerns more than one flag, and fills in the values that follow from others.
// INVALID_ARGUMENT names the flag; UNAVAILABLE where this machine does not say what it has.
absl::Status ResolveWorkerFlags(WorkerFlags* flags);

}  // namespace tutti::worker
