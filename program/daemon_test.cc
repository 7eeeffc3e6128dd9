// Signals go to a child of its own: those of the test's process stay as they are.
#include "program/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "program/exit_code.h"
#include "program/limits.h"

namespace tutti {
namespace {

using Hurry = Daemon::Hurry;
constexpr auto kLook = std::chrono::milliseconds(5);

// The exit code of a daemon in a child process.
int RunDaemon(const DaemonFlags& flags, const std::function<int(Daemon*)>& run) {
  const pid_t child = fork();
  if (child == 0) {
    Daemon daemon("tutti-test");
    daemon.Begin("test", flags);
    std::_Exit(run(&daemon));
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  return WEXITSTATUS(status);
}

// The first answer but kNo.
Hurry AwaitAny(Daemon* daemon) {
  Hurry hurry = Hurry::kNo;
  while (hurry == Hurry::kNo) hurry = daemon->AwaitHurry(kLook);
  return hurry;
}

TEST(Daemon, IsToldOnceAndHurriedByASecondSignal) {
  EXPECT_EQ(RunDaemon({},
                      [](Daemon* daemon) {
                        std::raise(SIGINT);
                        daemon->AwaitEnd("leaving");
                        if (daemon->hurried()) return 1;
                        // A parent and a process manager tell it at almost the same time.
                        std::raise(SIGTERM);
                        if (daemon->AwaitHurry(kLook) != Hurry::kNo) return 2;
                        std::thread later([] {
                          std::this_thread::sleep_for(kOneSignal + std::chrono::milliseconds(50));
                          kill(getpid(), SIGTERM);
                        });
                        const Hurry hurry = AwaitAny(daemon);
                        later.join();
                        return hurry == Hurry::kToldAgain && daemon->hurried() ? 0 : 3;
                      }),
            0);
}

// A daemon whose parent ends once it has begun: what it is told.
int RunLeftBehind(bool exit_with_parent) {
  return RunDaemon({}, [&](Daemon*) {
    // So that what is left behind is this process' child.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int begun[2];
    if (pipe(begun) != 0) return 1;
    const pid_t parent = fork();
    if (parent == 0 && fork() == 0) {
      Daemon daemon("tutti-left");
      daemon.Begin("left", {.exit_with_parent = exit_with_parent});
      if (!exit_with_parent) std::raise(SIGTERM);
      (void)!write(begun[1], "b", 1);
      daemon.AwaitEnd("leaving");
      std::_Exit(10 + static_cast<int>(daemon.AwaitHurry(kLook)));
    }
    char byte = 0;
    if (parent == 0) {
      (void)!read(begun[0], &byte, 1);
      std::_Exit(0);
    }
    int status = 0;
    while (wait(&status) == parent) continue;
    return WEXITSTATUS(status);
  });
}

TEST(Daemon, EndsWithItsParentWhereItShall) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a child's child that starts threads is nothing that ThreadSanitizer can follow";
#endif
  EXPECT_EQ(RunLeftBehind(true), 10 + static_cast<int>(Hurry::kParentEnded));
  EXPECT_EQ(RunLeftBehind(false), 10 + static_cast<int>(Hurry::kNo));
}

TEST(Daemon, ComplainsWithTheExitCodeOfTheReason) {
  Daemon daemon("tutti-test");
  EXPECT_TRUE(daemon.can_run());
  testing::internal::CaptureStderr();
  EXPECT_EQ(daemon.Complain(absl::NotFoundError("there is no model")), kExitCannotBeRight);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tutti-test: there is no model\n");
  EXPECT_EQ(daemon.Complain(absl::UnavailableError("the port is taken")), kExitCannotStart);
}

}  // namespace
}  // namespace tutti
