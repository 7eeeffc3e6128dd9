#include "client/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"

namespace tutti::client {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const ChildSpec& spec) {
  std::vector<std::string> all = spec.environment;
  const std::string& dropped = spec.environment_dropped;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = !dropped.empty() && text.compare(0, dropped.size(), dropped) == 0;
    for (const std::string& added : spec.environment) {
      replaced |= added.compare(0, name.size(), name) == 0;
    }
    if (!replaced) all.push_back(text);
  }
  return all;
}

// Runs in the child, between fork and exec: async-signal-safe calls only, for other threads of the
// parent may have held any lock. Returns only on failure.
void Exec(const ChildSpec& spec, int log_fd, pid_t parent, char* const* argv, char* const* envp) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (spec.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above.
  if (getppid() != parent) _exit(1);
  if (log_fd >= 0) {
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    const int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0) dup2(null_fd, STDIN_FILENO);
  }
  execve(argv[0], argv, envp);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildSpec& spec) {
  int log_fd = -1;
  if (!spec.log_file.empty()) {
    log_fd = open(spec.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot write the log file ", spec.log_file, ": ", std::strerror(errno)));
    }
  }
  // Carries errno of a failed exec; closed by a successful one.
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) {
    if (log_fd >= 0) close(log_fd);
    return absl::UnavailableError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  const std::vector<std::string> environment = Environment(spec);
  const std::vector<char*> argv = Pointers(spec.arguments);
  const std::vector<char*> envp = Pointers(environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    Exec(spec, log_fd, parent, argv.data(), envp.data());
    const int error = errno;
    (void)!write(error_pipe[1], &error, sizeof(error));
    _exit(127);
  }
  int error = pid < 0 ? errno : 0;
  close(error_pipe[1]);
  if (log_fd >= 0) close(log_fd);
  const bool failed = pid < 0 || read(error_pipe[0], &error, sizeof(error)) == sizeof(error);
  close(error_pipe[0]);
  if (failed) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    return absl::NotFoundError(
        absl::StrCat("cannot start ", spec.arguments[0], ": ", std::strerror(error)));
  }
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), wait_status_(other.wait_status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || TryWait()) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildProcess::TryWait() {
  if (!wait_status_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) wait_status_ = status;
  }
  return wait_status_;
}

void ChildProcess::Signal(int signal) const {
  // A reaped child's number may belong to another process by now.
  if (!wait_status_) kill(pid_, signal);
}

void ChildProcess::Abandon(ChildProcess child) {
  if (child.pid_ < 0 || child.TryWait()) return;
  child.Signal(SIGKILL);
  const auto reap = [pid = std::exchange(child.pid_, -1)] { waitpid(pid, nullptr, 0); };
  auto thread = TryStartThread("a process that was killed", reap);
  if (thread.ok()) return thread->detach();
  reap();
}

absl::StatusOr<ShortRun> RunShortly(const ChildSpec& spec, Duration patience) {
  TUTTI_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(spec));
  const SystemClock clock;
  const Instant deadline = clock.Now() + patience;
  ShortRun run;
  while (!(run.wait_status = child.TryWait()) && clock.Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!run.wait_status.has_value()) ChildProcess::Abandon(std::move(child));
  std::ifstream file(spec.log_file, std::ios::binary);
  run.said.assign(std::istreambuf_iterator<char>(file), {});
  return run;
}

std::string DescribeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
}

int ExitCodeOfWaitStatus(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace tutti::client
