// The device that each worker of a local cluster serves from: every GPU of this machine is used
// without being named, and none by two workers unless that was asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti::client {

struct MachineGpu {
  std::string device;  // as --device names it
  std::string name;
  int64_t memory_bytes = 0;
  std::string problem;  // why it cannot serve; "": it can
};

struct MachineDevices {
  std::vector<MachineGpu> gpus;
  std::string problem;  // why there are none
  bool no_gpu = false;  // the machine has none, so that this is no news
};

// The report of `tutti-worker --list-devices`. INTERNAL: something else was said.
absl::StatusOr<MachineDevices> ParseDeviceReport(absl::string_view json);

// Whether dealing looks at the GPUs of the machine: not for "cpu" and "reference".
bool DealsGpus(absl::string_view device);

struct DeviceWish {
  std::string device = "auto";  // auto, cuda, cuda:N, cpu or reference
  int workers = 0;              // 0: as many as there are GPUs, or 1
  bool share = false;           // workers may share GPUs
};

struct DeviceDeal {
  std::vector<std::string> devices;  // of each worker
  // Bytes for each worker of GPUs that are shared; 0: each takes what its GPU, or the machine, has.
  int64_t memory_per_worker = 0;
  bool gpus = false;  // whether the devices are GPUs
  // Why the CPU serves though nobody named it; "": it was named, or nothing else is there.
  std::string reason;
};

// INVALID_ARGUMENT: more workers than GPUs without `share`; says how many there are, and what to
// do. UNAVAILABLE: GPUs were asked for and none may serve; says why not.
absl::StatusOr<DeviceDeal> DealDevices(const DeviceWish& wish, const MachineDevices& machine);

}  // namespace tutti::client
