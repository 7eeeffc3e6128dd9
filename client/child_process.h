// A process of ours that never outlives us.
//
// Thread: every method on the thread that started the child: the kernel ties the child's death
// signal to that thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::client {

struct ChildSpec {
  std::vector<std::string> arguments;  // arguments[0] is the program's path
  std::string log_file;                // stdout and stderr are appended to it; empty: they are ours
  std::vector<std::string> environment;  // "NAME=value", added to ours
  // Variables of ours whose name starts so are not passed on; empty: all are.
  std::string environment_dropped;
  // The child is in a process group of its own, so that Ctrl-C at the terminal reaches us alone and
  // we end it in order.
  bool own_group = true;
};

class ChildProcess {
 public:
  // The child is killed by the kernel when this thread ends, however it ends. An error says which
  // program could not be started and why.
  static absl::StatusOr<ChildProcess> Start(const ChildSpec& spec);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills (SIGKILL) and reaps a child that still runs.
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // The wait status once it has ended; reaps it. Does not block.
  std::optional<int> TryWait();
  void Signal(int signal) const;
  // Kills a child that still runs and does not wait for its end, which a driver may put off for as
  // long as it likes (a process in state D). It is reaped when it has ended.
  static void Abandon(ChildProcess child);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  std::optional<int> wait_status_;
};

// A program that ends soon: its wait status, or nothing if it has not ended within `patience` and
// was left (Abandon); and what it has written to spec.log_file.
struct ShortRun {
  std::optional<int> wait_status;
  std::string said;
};
absl::StatusOr<ShortRun> RunShortly(const ChildSpec& spec, Duration patience);

// "exit code 2" or "signal 9 (Killed)".
std::string DescribeWaitStatus(int wait_status);
// The code as a shell reports it: the exit code, or 128 + signal.
int ExitCodeOfWaitStatus(int wait_status);

}  // namespace tutti::client
