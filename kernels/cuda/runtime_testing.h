// For tests of the host's side: a device of host memory that records the calls, and launches of
// kernels that are never run.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

struct FakeArgument {
  int64_t number = 0;
  float value = 0;
  int32_t gap = 0;
};

// The argument lives until the next call.
inline KernelLaunch FakeLaunch(int64_t number, float value) {
  static FakeArgument argument;
  argument = {.number = number, .value = value};
  static const char kernel = 0;
  return {.kernel = &kernel,
          .grid = {2, 3},
          .threads = 32,
          .argument = &argument,
          .argument_bytes = sizeof(argument)};
}

class FakeDevice : public Runtime {
 public:
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    if (!room) return absl::ResourceExhaustedError("full");
    ++allocations;
    ++live;
    return std::calloc(1, static_cast<size_t>(bytes));
  }
  void Free(void* data) override {
    --live;
    std::free(data);
  }
  int64_t FreeBytes() override { return free_bytes; }
  void Upload(void* to, int64_t, const void* from, int64_t, int64_t width, int64_t) override {
    ++uploads;
    log.emplace_back("upload");
    if (width > 0) std::memcpy(to, from, static_cast<size_t>(width));
  }
  void Download(void*, int64_t, const void*, int64_t, int64_t, int64_t) override {
    log.emplace_back("download");
  }
  void Zero(void*, int64_t) override { log.emplace_back("zero"); }
  bool Idle() override {
    log.emplace_back("idle");
    return true;
  }
  uint64_t Mark() override {
    log.emplace_back("mark");
    return ++marks_;
  }
  bool Passed(uint64_t) override { return true; }
  Stream stream() override {
    log.emplace_back("stream");
    return this;
  }
  void Start(const KernelLaunch& launch) override {
    ++starts;
    early.push_back(launch.early);
    log.push_back(Name(launch));
  }
  absl::StatusOr<std::unique_ptr<Graph>> MakeGraph(
      std::span<const KernelLaunch> launches) override {
    if (!graph_error.ok()) return graph_error;
    ++graphs_made;
    free_bytes -= graph_bytes;
    return std::make_unique<FakeGraph>(this, launches);
  }

  int allocations = 0, live = 0, uploads = 0, starts = 0;
  int graphs_made = 0, graphs_live = 0;
  int64_t free_bytes = int64_t{80} << 30;
  // By which a graph makes them less; there is no other user unless a test plays one here.
  int64_t graph_bytes = int64_t{2} << 20;
  bool room = true;
  absl::Status graph_error;
  // "7" for a start of FakeLaunch(7, …), "[7 8 9]" for that of a graph of three.
  std::vector<std::string> log;
  std::vector<int32_t> early;  // of every launch started by itself

 private:
  uint64_t marks_ = 0;

  static std::string Name(const KernelLaunch& launch) {
    return std::to_string(static_cast<const FakeArgument*>(launch.argument)->number);
  }

  class FakeGraph : public Graph {
   public:
    FakeGraph(FakeDevice* device, std::span<const KernelLaunch> launches)
        : device_(device), launches_(launches) {
      ++device_->graphs_live;
    }
    ~FakeGraph() override { --device_->graphs_live; }
    void Start() override {
      std::string text;
      for (const KernelLaunch& launch : launches_.launches()) text += " " + Name(launch);
      device_->log.push_back("[" + text.substr(1) + "]");
    }

   private:
    FakeDevice* const device_;
    LaunchList launches_;
  };
};

}  // namespace tutti::kernels::cuda
