// The frame of our daemons: what tutti-coordinator, tutti-worker and tutti-gateway do alike before
// they serve and once they are told to end.
//
//   Daemon daemon("tutti-worker");
//   if (!daemon.can_run()) return kExitCannotStart;
//   FlagSet program("tutti-worker", "Serves one shard of a model.");
//   DaemonFlags flags;
//   AddDaemonFlags("Seconds …", &program, &flags);
//   if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
//   daemon.Begin("w0", flags);
//   …
//   daemon.AwaitEnd("draining");
//   while (busy && daemon.AwaitHurry(look) == Daemon::Hurry::kNo) …
//
// Thread: main's. Begin is called before any other exists.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/status.h"
#include "program/flags.h"

namespace tutti {

// The flags that every daemon has.
struct DaemonFlags {
  std::string log_level = "info";
  std::string log_format = "text";
  Duration drain_timeout = std::chrono::seconds(30);
  bool exit_with_parent = false;
};

// `drain`: the help of --drain-timeout.
void AddDaemonFlags(absl::string_view drain, FlagSet* set, DaemonFlags* flags);

class Daemon {
 public:
  // First of all in main: remembers who has started this process.  `name`: the program's.
  explicit Daemon(std::string name);

  // Whether this processor can run our programs; if not, that has been said.
  bool can_run() const;

  // Opens the log, whose lines name `process`, keeps SIGINT and SIGTERM for AwaitEnd and
  // AwaitHurry, and ends with the parent where the flags say so.
  void Begin(const std::string& process, const DaemonFlags& flags);

  // Says why the process ends that could not start. Returns its exit code.
  int Complain(const absl::Status& why) const;

  // Waits for the first signal, and logs it with what this process goes on to do ("draining").
  void AwaitEnd(std::string_view doing);

  // After AwaitEnd: whether the process is to end sooner.
  enum class Hurry {
    kNo,
    kToldAgain,    // a second signal has come
    kParentEnded,  // with which this process ends
  };
  // Waits so long for the answer to be another than kNo, which it then stays.
  Hurry AwaitHurry(Duration patience);
  bool hurried() { return AwaitHurry(Duration(0)) != Hurry::kNo; }

 private:
  const std::string name_;
  const pid_t parent_;
  bool ends_with_parent_ = false;
  sigset_t signals_{};
  const SystemClock clock_{};
  Instant told_{};
  Hurry hurry_ = Hurry::kNo;
};

}  // namespace tutti
