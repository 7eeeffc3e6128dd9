#include "program/log_output.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"

namespace tutti {
namespace {

// The pause between two looks at whether this is the end, of a thread whose descriptor is full and
// does not block.
constexpr int kFullLookMs = 100;
// Memory taken for each line in the queue, beside its text.
constexpr size_t kLineOverheadBytes = 64;
// Lines of ours are shorter; one with a text of somebody else's may be longer.
constexpr size_t kLogLineBytesMax = size_t{64} << 10;

size_t CostOf(const std::string& line) { return line.size() + kLineOverheadBytes; }

}  // namespace

struct LogOutput::State {
  State(Options chosen, Notice make) : options(chosen), notice(std::move(make)) {}

  // Whether the whole text was written.
  bool WriteAll(std::string_view text);
  bool IsAbandoned() {
    const MutexLock lock(&mutex);
    return abandoned;
  }
  bool IsDoneLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return lines.empty() && missing == 0 && !writing;
  }

  const Options options;
  const Notice notice;
  const SystemClock clock{};
  std::thread thread;

  // Owned by the thread.
  bool cut = false;  // the last thing written was a part of a line

  Mutex mutex;
  ConditionVariable changed;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  size_t queued_bytes ABSL_GUARDED_BY(mutex) = 0;
  int64_t missing ABSL_GUARDED_BY(mutex) = 0;  // lines before the first of `lines`
  bool writing ABSL_GUARDED_BY(mutex) = false;
  bool failing ABSL_GUARDED_BY(mutex) = false;  // the last write did
  bool stop ABSL_GUARDED_BY(mutex) = false;
  bool over ABSL_GUARDED_BY(mutex) = false;       // the thread is about to end
  bool abandoned ABSL_GUARDED_BY(mutex) = false;  // nobody waits for the thread
};

bool LogOutput::State::WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(options.fd, text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
      cut = !text.empty();
    } else if (count < 0 && errno == EAGAIN) {
      pollfd full{.fd = options.fd, .events = POLLOUT, .revents = 0};
      poll(&full, 1, kFullLookMs);
      if (IsAbandoned()) return false;
    } else if (count == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

LogOutput::LogOutput(Options options, Notice notice)
    : state_(std::make_shared<State>(options, std::move(notice))) {
  // The thread takes no signal, be it one that the program has not blocked yet: SIGPIPE neither, of
  // a reader that has gone.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->thread = StartThread("the log", [state = state_] { Run(state); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogOutput::~LogOutput() {
  const Instant deadline = state_->clock.Now() + state_->options.last_words;
  bool over = false;
  {
    const MutexLock lock(&state_->mutex);
    state_->stop = true;
    state_->changed.NotifyAll();
    while (!state_->over && state_->changed.WaitUntil(&state_->mutex, deadline)) continue;
    over = state_->over;
    state_->abandoned = !over;
  }
  if (over) {
    state_->thread.join();
  } else {
    state_->thread.detach();
  }
}

void LogOutput::Write(std::string line) {
  // One that is longer than all that may wait would push out everything.
  if (line.size() > kLogLineBytesMax) {
    line.resize(kLogLineBytesMax);
    line += "...\n";
  }
  const MutexLock lock(&state_->mutex);
  state_->queued_bytes += CostOf(line);
  state_->lines.push_back(std::move(line));
  while (state_->queued_bytes > state_->options.queued_bytes_max) {
    state_->queued_bytes -= CostOf(state_->lines.front());
    state_->lines.pop_front();
    ++state_->missing;
  }
  state_->changed.NotifyAll();
}

bool LogOutput::Flush(Duration patience) {
  const Instant deadline = state_->clock.Now() + patience;
  const MutexLock lock(&state_->mutex);
  while (!state_->IsDoneLocked() && !state_->failing &&
         state_->changed.WaitUntil(&state_->mutex, deadline)) {
    continue;
  }
  return state_->IsDoneLocked();
}

void LogOutput::Run(const std::shared_ptr<State>& state) {
  State& own = *state;
  own.mutex.Lock();
  while (!own.abandoned) {
    if (own.lines.empty() && own.missing == 0) {
      if (own.stop) break;
      own.changed.Wait(&own.mutex);
      continue;
    }
    const int64_t missing = std::exchange(own.missing, 0);
    std::string line;
    if (missing == 0) {
      line = std::move(own.lines.front());
      own.queued_bytes -= CostOf(line);
      own.lines.pop_front();
    }
    own.writing = true;
    own.mutex.Unlock();
    if (missing > 0) line = own.notice(missing);
    // A line that was cut off does not run into the next line.
    const bool written = (!own.cut || own.WriteAll("\n")) && own.WriteAll(line);
    own.mutex.Lock();
    own.writing = false;
    own.failing = !written;
    own.changed.NotifyAll();
    if (written) continue;
    own.missing += missing > 0 ? missing : 1;
    if (own.stop) break;
    const Instant next = own.clock.Now() + own.options.retry_after;
    while (!own.stop && own.changed.WaitUntil(&own.mutex, next)) continue;
  }
  own.over = true;
  own.changed.NotifyAll();
  own.mutex.Unlock();
}

}  // namespace tutti
