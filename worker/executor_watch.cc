#include "worker/executor_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "worker/limits.h"

namespace tutti::worker {
namespace {

// The letter of a thread's state: what follows the name, which may hold any character.
char StateOf(const char* thread) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%.16s/stat", thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;  // it has ended
  char text[128];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* const name_end = std::strrchr(text, ')');
  return name_end == nullptr || name_end + 2 >= text + size ? 0 : name_end[2];
}

int64_t Microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

Duration SystemProcessorMeter::time() const {
  timespec time = {};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

int SystemProcessorMeter::ready_threads() const {
  DIR* const threads = opendir("/proc/self/task");
  if (threads == nullptr) return 0;
  const pid_t self = gettid();
  int ready = 0;
  while (const dirent* const entry = readdir(threads)) {
    if (entry->d_name[0] == '.' || std::atoi(entry->d_name) == self) continue;
    const char state = StateOf(entry->d_name);
    if (state == 'R' || state == 'D') ++ready;
  }
  closedir(threads);
  return ready;
}

ExecutorWatch::ExecutorWatch(const Position* position, const kernels::WorkMeter* work,
                             const ProcessorMeter* processors)
    : position_(position), work_(work), processors_(processors) {}

double ExecutorWatch::ShareSinceLastLook(Duration since, Duration processor_time) const {
  const int ready = processors_->ready_threads();
  if (ready == 0 || since <= Duration::zero()) return 1;
  const double got = Seconds(processor_time - processor_time_) / (Seconds(since) * ready);
  return std::clamp(got, kProcessorShareMin, 1.0);
}

v1::Beat ExecutorWatch::Look(Instant now) {
  // Before the turns: see Position::Begin.
  const Position::Doing doing = position_->doing();
  const uint64_t progress = position_->moves() + (work_ == nullptr ? 0 : work_->slices_done());
  const uint64_t turns = position_->turns();
  const Duration processor_time = processors_->time();
  const bool limited = doing.allowed > Duration::zero();
  const bool went_on = progress != progress_ || turns != turns_ || limited != limited_;
  if (went_on || looked_at_ == Instant()) {
    unmoved_since_ = now;
    counted_ = {};
  } else if (limited) {
    const Duration since = now - looked_at_;
    counted_ +=
        std::chrono::duration_cast<Duration>(since * ShareSinceLastLook(since, processor_time));
  }
  looked_at_ = now;
  processor_time_ = processor_time;
  progress_ = progress;
  turns_ = turns;
  limited_ = limited;

  v1::Beat beat;
  beat.set_progress(progress);
  beat.set_activity(std::string(ActivityName(doing.activity)));
  beat.set_waiting_for(position_->waiting_for());
  const Duration unmoved = now - unmoved_since_;
  beat.set_unmoved_us(Microseconds(unmoved));
  const double stretch = counted_ > Duration::zero() ? Seconds(unmoved) / Seconds(counted_) : 1;
  beat.set_allowed_us(
      static_cast<int64_t>(stretch * static_cast<double>(Microseconds(doing.allowed))));
  return beat;
}

}  // namespace tutti::worker
