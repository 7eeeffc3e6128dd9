#include "worker/gpu/gpu_monitor.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/byte_size.h"
#include "base/gpu_reading.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

std::string HolderText(const GpuProcess& process) {
  return absl::StrCat("pid ", process.pid, process.name.empty() ? "" : " ", process.name, ": ",
                      FormatBytes(process.bytes));
}

// The largest of them.
//   others  the largest first
std::string HoldersText(const std::vector<GpuProcess>& others) {
  std::vector<std::string> named;
  for (const GpuProcess& process : others) {
    if (named.size() == kGpuHoldersNamed) break;
    named.push_back(HolderText(process));
  }
  return PrintableOf(absl::StrJoin(named, ", "), kGpuTextBytesMax);
}

// Only where our own process is among those listed can the others be told from it: in a container
// it has another number.
void FillProcesses(std::vector<GpuProcess> processes, v1::GpuReading* reading) {
  const auto own = std::find_if(processes.begin(), processes.end(),
                                [](const GpuProcess& process) { return process.pid == getpid(); });
  if (own == processes.end()) return;
  reading->set_own_bytes(own->bytes);
  processes.erase(own);
  int64_t others = 0;
  for (const GpuProcess& process : processes) {
    others = std::min(others + process.bytes, reading->used_bytes());
  }
  reading->set_other_bytes(others);
  reading->set_holders(HoldersText(processes));
}

v1::GpuReading ReadingOf(const GpuIdentity& gpu, const GpuFigures& figures) {
  v1::GpuReading reading;
  reading.set_name(PrintableOf(gpu.name, kGpuTextBytesMax));
  reading.set_total_bytes(figures.total_bytes);
  reading.set_used_bytes(figures.used_bytes);
  if (figures.processes.has_value()) FillProcesses(*figures.processes, &reading);
  if (figures.busy_share) reading.set_busy_share(*figures.busy_share);
  if (figures.power_watts) reading.set_power_watts(*figures.power_watts);
  if (figures.power_limit_watts) reading.set_power_limit_watts(*figures.power_limit_watts);
  if (figures.temperature_celsius) reading.set_temperature_celsius(*figures.temperature_celsius);
  return reading;
}

}  // namespace

std::string CrowdedText(const GpuIdentity& gpu, const GpuFigures& figures) {
  if (figures.total_bytes == 0) return "";
  const auto held = static_cast<double>(figures.used_bytes);
  if (held < kGpuHeldShareNamed * static_cast<double>(figures.total_bytes)) return "";
  const std::string holders = HoldersText(figures.processes.value_or(std::vector<GpuProcess>()));
  return absl::StrCat(
      gpu.id, " (", PrintableOf(gpu.name, kGpuTextBytesMax), "): ", FormatBytes(figures.used_bytes),
      " of ", FormatBytes(figures.total_bytes), " are held by other processes (",
      holders.empty() ? "the driver does not say which" : holders,
      "); this worker offers what is left: end them, choose another GPU with --device, or give "
      "--memory");
}

// Thread: any, apart from what Run says.
class GpuMonitor::State {
 public:
  explicit State(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }

  // Called before the driver is called. False: the end.
  bool BeginCall() {
    const MutexLock lock(&mutex_);
    calling_since_ = clock_.Now();
    return !stopping_;
  }

  // Said once: a machine without the library stays without. Not after Stop, as nothing is: whoever
  // was left in the driver may come back when the log is gone.
  void SayNone(const absl::Status& why) const {
    const MutexLock lock(&mutex_);
    if (stopping_) return;
    spdlog::info("no figures of {}: {}", options_.gpu.id, std::string(why.message()));
  }

  void Say(const absl::StatusOr<GpuFigures>& figures) {
    const MutexLock lock(&mutex_);
    if (stopping_) return;
    calling_since_.reset();
    const std::string trouble =
        figures.ok() ? "" : PrintableOf(std::string(figures.status().message()), kGpuTextBytesMax);
    if (trouble != trouble_ && !trouble.empty()) {
      spdlog::warn("no figures of {}: {}", options_.gpu.id, trouble);
    } else if (trouble.empty() && (hang_said_ || !trouble_.empty())) {
      spdlog::info("figures of {} again", options_.gpu.id);
    }
    trouble_ = trouble;
    hang_said_ = false;
    if (figures.ok()) {
      if (!first_.has_value()) first_ = *figures;
      reading_ = ReadingOf(options_.gpu, *figures);
      read_at_ = clock_.Now();
    }
    answered_ = true;
    changed_.NotifyAll();
  }

  // False: the end.
  bool Rest() {
    const MutexLock lock(&mutex_);
    const Instant until = clock_.Now() + options_.period;
    while (!stopping_ && changed_.WaitUntil(&mutex_, until)) {
    }
    return !stopping_;
  }

  void SetEnded() {
    const MutexLock lock(&mutex_);
    calling_since_.reset();
    ended_ = true;
    answered_ = true;
    changed_.NotifyAll();
  }

  void Stop(Duration patience) {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    const Instant until = clock_.Now() + patience;
    while (!ended_ && clock_.Now() < until) changed_.WaitUntil(&mutex_, until);
  }

  std::string AwaitFirst(Duration patience) {
    const MutexLock lock(&mutex_);
    const Instant until = clock_.Now() + patience;
    while (!answered_ && clock_.Now() < until) changed_.WaitUntil(&mutex_, until);
    if (!answered_) SayHang("the driver has not answered yet");
    return first_.has_value() ? CrowdedText(options_.gpu, *first_) : "";
  }

  bool Fill(v1::GpuReading* reading) {
    const MutexLock lock(&mutex_);
    const Instant now = clock_.Now();
    const Duration late = 2 * options_.period + kGpuAnswerPatience;
    const bool hangs = calling_since_.has_value() && now - *calling_since_ > late;
    if (!read_at_.has_value() && !hangs && trouble_.empty()) return false;
    *reading = reading_;
    reading->set_name(PrintableOf(options_.gpu.name, kGpuTextBytesMax));
    reading->set_age_seconds(read_at_.has_value() ? Seconds(now - *read_at_) : 0);
    reading->set_trouble(trouble_);
    if (hangs) {
      reading->set_trouble(absl::StrCat("the driver has not answered for ",
                                        static_cast<int64_t>(Seconds(now - *calling_since_)),
                                        " s"));
      SayHang(reading->trouble());
    }
    return true;
  }

 private:
  // Once in a call.
  void SayHang(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!std::exchange(hang_said_, true)) {
      spdlog::warn("no figures of {}: {}", options_.gpu.id, text);
    }
  }

  const Options options_;
  const SystemClock clock_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<GpuFigures> first_ ABSL_GUARDED_BY(mutex_);
  v1::GpuReading reading_ ABSL_GUARDED_BY(mutex_);
  std::optional<Instant> read_at_ ABSL_GUARDED_BY(mutex_);
  std::optional<Instant> calling_since_ ABSL_GUARDED_BY(mutex_);
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  bool hang_said_ ABSL_GUARDED_BY(mutex_) = false;
};

void GpuMonitor::Run(const std::shared_ptr<State>& state) {
  state->BeginCall();
  auto library = NvmlLibrary::Open(state->options().library);
  if (!library.ok()) {
    state->SayNone(library.status());
    return state->SetEnded();
  }
  while (state->BeginCall()) {
    // Found anew each time: a GPU that was reset has another handle.
    absl::StatusOr<GpuFigures> figures = GpuFigures();
    if (const auto device = (*library)->Find(state->options().gpu); device.ok()) {
      figures = (*library)->Read(*device);
    } else {
      figures = device.status();
    }
    state->Say(figures);
    if (!state->Rest()) break;
  }
  library->reset();
  state->SetEnded();
}

GpuMonitor::GpuMonitor(Options options) : state_(std::make_shared<State>(std::move(options))) {
  StartThread("the questions to the GPU's driver", [state = state_] { Run(state); }).detach();
}

GpuMonitor::~GpuMonitor() { state_->Stop(kGpuMonitorPatience); }

std::string GpuMonitor::AwaitFirst(Duration patience) { return state_->AwaitFirst(patience); }

bool GpuMonitor::Fill(v1::GpuReading* reading) const { return state_->Fill(reading); }

}  // namespace tutti::worker
