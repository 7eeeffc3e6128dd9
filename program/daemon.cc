#include "program/daemon.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "program/exit_code.h"
#include "program/limits.h"
#include "program/logging.h"
#include "program/processor.h"
#include "spdlog/spdlog.h"

namespace tutti {

void AddDaemonFlags(absl::string_view drain, FlagSet* set, DaemonFlags* flags) {
  set->Add({
      {.names = "--drain-timeout",
       .variable = &flags->drain_timeout,
       .help = drain,
       .check = NotNegative(),
       .show_default = true},
      {.names = "--log-level",
       .variable = &flags->log_level,
       .help = "trace, debug, info, warn or error",
       .check = OneOf("trace,debug,info,warn,error"),
       .show_default = true},
      {.names = "--log-format",
       .variable = &flags->log_format,
       .help = "Of the log on stderr: text, or json for an object a line",
       .check = OneOf(kLogFormats),
       .show_default = true},
      {.names = "--exit-with-parent",
       .variable = &flags->exit_with_parent,
       .help = "End when the process that started this one ends"},
  });
}

Daemon::Daemon(std::string name) : name_(std::move(name)), parent_(getppid()) {}

bool Daemon::can_run() const {
  const absl::Status fit = CheckProcessor();
  if (!fit.ok()) Complain(fit);
  return fit.ok();
}

void Daemon::Begin(const std::string& process, const DaemonFlags& flags) {
  SetUpLog(process, flags.log_level, flags.log_format);
  // Before any thread exists, so that all inherit the mask and only this class sees these.
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  ends_with_parent_ = flags.exit_with_parent;
  if (!ends_with_parent_) return;
  // Also when the parent ended before this call.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent_) std::raise(SIGTERM);
}

int Daemon::Complain(const absl::Status& why) const {
  SayLast(absl::StrCat(name_, ": ", std::string(why.message())));
  return ExitCodeOfStart(why);
}

void Daemon::AwaitEnd(std::string_view doing) {
  int signal = 0;
  sigwait(&signals_, &signal);
  told_ = clock_.Now();
  spdlog::info("{}: {}", signal == SIGINT ? "SIGINT" : "SIGTERM", doing);
}

Daemon::Hurry Daemon::AwaitHurry(Duration patience) {
  if (hurry_ != Hurry::kNo) return hurry_;
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(patience).count();
  const timespec wait = {.tv_sec = nanoseconds / 1'000'000'000,
                         .tv_nsec = nanoseconds % 1'000'000'000};
  const bool told = sigtimedwait(&signals_, nullptr, &wait) > 0;
  if (told && clock_.Now() >= told_ + kOneSignal) {
    hurry_ = Hurry::kToldAgain;
  } else if (ends_with_parent_ && getppid() != parent_) {
    hurry_ = Hurry::kParentEnded;
  }
  return hurry_;
}

}  // namespace tutti
