#include "client/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace tutti::client {
namespace {

std::string LogPath() { return ::testing::TempDir() + "child_process_test.log"; }

std::string ReadLog() {
  std::ifstream file(LogPath());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int WaitFor(ChildProcess* child) {
  while (true) {
    if (const auto status = child->TryWait()) return *status;
    std::this_thread::yield();
  }
}

ChildSpec Shell(const std::string& script) {
  return {.arguments = {"/bin/sh", "-c", script}, .log_file = LogPath(), .environment = {}};
}

class ChildProcessTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(LogPath()); }
  void TearDown() override { std::filesystem::remove(LogPath()); }
};

TEST_F(ChildProcessTest, CollectsOutputAndExitCode) {
  ChildSpec spec = Shell("echo out; echo err >&2; echo $TUTTI_X; exit 3");
  spec.environment = {"TUTTI_X=42"};
  auto child = ChildProcess::Start(spec);
  ASSERT_TRUE(child.ok()) << child.status();
  const int status = WaitFor(&*child);
  EXPECT_EQ(ExitCodeOfWaitStatus(status), 3);
  EXPECT_EQ(DescribeWaitStatus(status), "exit code 3");
  EXPECT_EQ(ReadLog(), "out\nerr\n42\n");
}

TEST_F(ChildProcessTest, DropsAndReplacesVariables) {
  setenv("TUTTI_DROPPED", "1", 1);
  setenv("REPLACED", "old", 1);
  ChildSpec spec = Shell("echo [$TUTTI_DROPPED] [$REPLACED] [$TUTTI_KEPT]");
  spec.environment = {"REPLACED=new", "TUTTI_KEPT=2"};
  spec.environment_dropped = "TUTTI_";
  auto child = ChildProcess::Start(spec);
  ASSERT_TRUE(child.ok()) << child.status();
  WaitFor(&*child);
  EXPECT_EQ(ReadLog(), "[] [new] [2]\n");
}

TEST_F(ChildProcessTest, NamesAProgramThatCannotBeStarted) {
  const auto child = ChildProcess::Start({.arguments = {"/nonexistent/program"}});
  EXPECT_EQ(child.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(child.status().message().find("/nonexistent/program"), std::string::npos);
}

TEST_F(ChildProcessTest, NamesALogFileThatCannotBeWritten) {
  ChildSpec spec = Shell("true");
  spec.log_file = "/nonexistent/dir/log";
  const auto child = ChildProcess::Start(spec);
  EXPECT_EQ(child.status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ChildProcessTest, StandsInAGroupOfItsOwnWithNoSignalBlocked) {
  sigset_t mask, old;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &mask, &old);
  auto child = ChildProcess::Start(Shell("sleep 1000"));
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(getpgid(child->pid()), child->pid());
  child->Signal(SIGTERM);
  const int status = WaitFor(&*child);
  EXPECT_EQ(DescribeWaitStatus(status), "signal 15 (Terminated)");
  EXPECT_EQ(ExitCodeOfWaitStatus(status), 143);
}

TEST_F(ChildProcessTest, EndsWithTheObject) {
  pid_t pid = 0;
  {
    auto child = ChildProcess::Start(Shell("exec sleep 1000"));
    ASSERT_TRUE(child.ok());
    pid = child->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);  // reaped: no such process
}

TEST_F(ChildProcessTest, WhatIsAbandonedIsKilledAndReaped) {
  auto child = ChildProcess::Start(Shell("exec sleep 1000"));
  ASSERT_TRUE(child.ok());
  const pid_t pid = child->pid();
  ChildProcess::Abandon(*std::move(child));
  while (kill(pid, 0) == 0) std::this_thread::yield();
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(ChildProcessTest, EndsWithAParentThatIsKilled) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = ChildProcess::Start(Shell("exec sleep 1000"));
    const pid_t pid = child.ok() ? child->pid() : -1;
    (void)!write(fds[1], &pid, sizeof(pid));
    raise(SIGKILL);
  }
  pid_t child = -1;
  ASSERT_EQ(read(fds[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  ASSERT_GT(child, 0);
  waitpid(parent, nullptr, 0);
  // The orphan is reaped by init or stays a zombie in a container without one; it runs in neither
  // case.
  const auto running = [child] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    const std::string text(std::istreambuf_iterator<char>(stat), {});
    return !text.empty() && text.find(") Z ") == std::string::npos;
  };
  while (running()) std::this_thread::yield();
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
}  // namespace tutti::client
