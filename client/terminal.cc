#include "client/terminal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/thread.h"

namespace tutti::client {

bool IsTerminal(int fd) { return isatty(fd) == 1; }

int TerminalColumns(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Style::Style(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && absl::string_view(term) == "dumb";
  enabled_ = IsTerminal(fd) && !dumb && (no_color == nullptr || *no_color == '\0');
}

std::string Style::Wrap(absl::string_view code, absl::string_view text) const {
  return enabled_ ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : std::string(text);
}

ProgressLine::ProgressLine() : terminal_(IsTerminal(STDERR_FILENO)) {}

void ProgressLine::Show(absl::string_view text, absl::string_view milestone) {
  if (!terminal_) {
    if (milestone == last_milestone_) return;
    last_milestone_ = std::string(milestone);
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    return;
  }
  const int known = TerminalColumns(STDERR_FILENO);
  // A line that wraps cannot be redrawn in place.
  const auto columns = static_cast<size_t>(known > 1 ? known - 1 : 79);
  const absl::string_view fits = text.substr(0, std::min(text.size(), columns));
  std::fprintf(stderr, "\r\x1b[K%.*s", static_cast<int>(fits.size()), fits.data());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::Clear() {
  if (!shown_) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

InterruptWatcher::InterruptWatcher(OnSignal on_signal) : on_signal_(std::move(on_signal)) {
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&mask, signal);
  CHECK(pthread_sigmask(SIG_BLOCK, &mask, &old_mask_) == 0) << "sigmask";
  signal_fd_ = signalfd(-1, &mask, SFD_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  CHECK(signal_fd_ >= 0 && stop_fd_ >= 0) << "no file descriptors left";
  thread_ = StartThread("the watch of keys", [this] { Watch(); });
}

InterruptWatcher::~InterruptWatcher() {
  const uint64_t one = 1;
  CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one)) << "eventfd";
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void InterruptWatcher::Watch() {
  int count = 0;
  while (true) {
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) != sizeof(info)) continue;
    on_signal_(static_cast<int>(info.ssi_signo), ++count);
  }
}

}  // namespace tutti::client
