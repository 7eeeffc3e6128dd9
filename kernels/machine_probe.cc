#include "kernels/machine_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/host_buffer.h"
#include "kernels/limits.h"

namespace tutti::kernels {
namespace {

class CpuProbe : public MachineProbe {
 public:
  CpuProbe(int threads, cpu::InstructionSet widest, std::unique_ptr<DeviceBuffer> buffer)
      : kernels_(cpu::KernelsOf(widest)), pool_(threads), buffer_(std::move(buffer)) {
    // Written by the threads that read it, so that its pages lie near them.
    pool_.Split(kProbeBytes / kLargePageBytes, false, [&](int, int64_t begin, int64_t end) {
      std::memset(data() + begin * kLargePageBytes, 1,
                  static_cast<size_t>((end - begin) * kLargePageBytes));
    });
  }

  double ReadBytesPerSecond() override {
    double best = 0;
    for (const Pattern& pattern : kPatterns) {
      best = std::max(best, static_cast<double>(kProbeBytes) / SecondsToRead(pattern));
    }
    return best;
  }
  double F32FlopsPerSecond() override { return Burst(kernels_.fma_burst); }
  double FlopsPerSecond(std::string_view numerics_class) override {
    return Quickest(
        [&](cpu::InstructionSet set) { return cpu::NumericsClassOf(set) == numerics_class; });
  }
  double BestFlopsPerSecond() override {
    return Quickest([](cpu::InstructionSet) { return true; });
  }

 private:
  // The quickest pattern depends on the processor, and on how many of its cores read.
  struct Pattern {
    int64_t streams, ahead;
  };
  static constexpr Pattern kPatterns[] = {
      {1, 0}, {1, 1024}, {kStreams, 0}, {kStreams, kStreamAheadBytes}};

  double SecondsToRead(const Pattern& pattern) {
    std::atomic<float> keep = 0;
    return Time([&] {
      pool_.Split(kProbeBytes / kLargePageBytes, false, [&](int, int64_t begin, int64_t end) {
        keep = kernels_.read_all(data() + begin * kLargePageBytes, (end - begin) * kLargePageBytes,
                                 pattern.streams, pattern.ahead);
      });
    });
  }
  uint8_t* data() const { return static_cast<uint8_t*>(buffer_->data()); }

  template <class Fn>
  static double Time(const Fn& fn) {
    const auto start = std::chrono::steady_clock::now();
    fn();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // Of f32 multiply-adds and the instructions for bf16 of those sets for which wanted(set).
  template <class Wanted>
  double Quickest(const Wanted& wanted) {
    double best = F32FlopsPerSecond();
    for (const cpu::InstructionSet set : cpu::AvailableInstructionSets(cpu::MachineFeatures())) {
      if (!wanted(set)) continue;
      const cpu::KernelTable& kernels = cpu::KernelsOf(set);
      for (const auto burst : {kernels.dot_burst, kernels.tile_burst}) {
        if (burst != nullptr) best = std::max(best, Burst(burst));
      }
    }
    return best;
  }
  double Burst(int64_t (*burst)(int64_t)) {
    std::atomic<int64_t> operations = 0;
    const double seconds =
        Time([&] { pool_.Run([&](int) { operations += burst(kProbeRounds); }); });
    return static_cast<double>(operations.load()) / seconds;
  }

  const cpu::KernelTable& kernels_;
  cpu::ThreadPool pool_;
  const std::unique_ptr<DeviceBuffer> buffer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MachineProbe>> MachineProbe::Create(int threads) {
  if (threads < 1 || threads > kThreadsMax) {
    return absl::InvalidArgumentError(absl::StrCat("probe with ", threads, " threads"));
  }
  TUTTI_ASSIGN_OR_RETURN(const cpu::InstructionSet set,
                         cpu::ChooseInstructionSet(cpu::MachineFeatures(), {}));
  TUTTI_ASSIGN_OR_RETURN(auto buffer, AllocateHost(kProbeBytes));
  return std::make_unique<CpuProbe>(threads, set, std::move(buffer));
}

}  // namespace tutti::kernels
