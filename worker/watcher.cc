#include "worker/watcher.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/thread.h"
#include "spdlog/spdlog.h"

namespace tutti::worker {

int64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long long total = 0, resident = 0;
  const int read = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

Watcher::~Watcher() { Stop(); }

void Watcher::Start() {
  thread_ = StartThread("the watcher", [this] { Run(); });
}

void Watcher::Stop() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    link_.reset();
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Watcher::SetLink(std::shared_ptr<transport::Link> link, Duration interval) {
  const MutexLock lock(&mutex_);
  link_ = std::move(link);
  interval_ = interval;
  next_beat_ = Instant();
  changed_.NotifyAll();
}

void Watcher::TakeLink() {
  const MutexLock lock(&mutex_);
  link_.reset();
}

std::shared_ptr<transport::Link> Watcher::AwaitBeat() {
  const MutexLock lock(&mutex_);
  while (!stopping_) {
    const Instant now = clock_->Now();
    if (link_ == nullptr) {
      changed_.Wait(&mutex_);
    } else if (now < next_beat_) {
      changed_.WaitUntil(&mutex_, next_beat_);
    } else {
      next_beat_ = now + interval_;
      return link_;
    }
  }
  return nullptr;
}

void Watcher::Run() {
  while (const std::shared_ptr<transport::Link> link = AwaitBeat()) Beat(link.get());
}

void Watcher::Beat(transport::Link* link) {
  v1::Frame frame;
  *frame.mutable_beat() = watch_->Look(clock_->Now());
  frame.mutable_beat()->set_resident_bytes(ResidentBytes());
  if (v1::GpuReading gpu; gpu_ != nullptr && gpu_->Fill(&gpu)) {
    *frame.mutable_beat()->mutable_gpu() = std::move(gpu);
  }
  const absl::Status status = link->Send(std::move(frame));
  // A link that closed says so itself.
  if (absl::IsResourceExhausted(status)) {
    spdlog::error("the coordinator does not read: {}", status.ToString());
    link->Close(status);
  }
}

}  // namespace tutti::worker
