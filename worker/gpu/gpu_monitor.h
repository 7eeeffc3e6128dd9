// The figures of the driver about the worker's GPU, asked for now and then on a thread of its own.
//
// A driver may hang in any call, for ever. Nobody waits for that thread: figures just grow old and
// say so, and a thread that is in the driver when the monitor ends is left behind.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "tutti/v1/gpu.pb.h"
#include "worker/gpu/nvml_library.h"

namespace tutti::worker {

// A warning about a GPU that a worker is about to take: "GPU-… (name): 60.1 GiB of 79.6 GiB are
// held by other processes (pid 123 python3: 59 GiB); …" and what to do; "" where little is held.
//   figures  of a time when this process held nothing of the GPU
std::string CrowdedText(const GpuIdentity& gpu, const GpuFigures& figures);

class GpuMonitor {
 public:
  struct Options {
    std::string library;  // NvmlLibraryPath
    GpuIdentity gpu;
    Duration period;  // between two answers
  };

  // Starts the thread. The log says once why there are no figures, and each time that they begin
  // or cease to come.
  explicit GpuMonitor(Options options);
  // Waits for the thread, for kGpuMonitorPatience at most.
  ~GpuMonitor();

  // Waits for the first answer, or until there will be none; for `patience` at most. What
  // CrowdedText says of it.  REQUIRES: this process has not opened the GPU.  Thread: the owner's.
  std::string AwaitFirst(Duration patience);

  // False: the driver has said nothing yet. Never waits for it.  Thread: any.
  bool Fill(v1::GpuReading* reading) const;

 private:
  class State;
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // the thread's too
};

}  // namespace tutti::worker
