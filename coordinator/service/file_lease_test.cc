#include "coordinator/service/file_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files_testing.h"

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;

class FileLeaseTest : public testing::Test {
 protected:
  FileLease Make(const std::string& name) {
    return {path_, name, [this] { return now_; }};
  }
  static uint32_t TryAcquire(FileLease* lease) {
    const auto number = lease->TryAcquire();
    EXPECT_TRUE(number.ok()) << number.status();
    return number.ok() ? number->value_or(0) : 0;
  }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }

  TempDir folder_;
  const std::string path_ = folder_.path() + "/leader";
  int64_t now_ = 1000;
};

TEST_F(FileLeaseTest, OneLeadsAndTheNextHasALargerNumber) {
  FileLease first = Make("c0");
  FileLease second = Make("c1");
  EXPECT_EQ(TryAcquire(&first), 1000u);
  EXPECT_TRUE(first.time().Holds(kInstantNever - std::chrono::seconds(1)));
  EXPECT_EQ(TryAcquire(&second), 0u);
  EXPECT_EQ(second.leader(), "c0");
  EXPECT_FALSE(second.time().Holds(Instant()));
  first.Resign();
  EXPECT_FALSE(first.time().Holds(Instant()));
  now_ = 5;  // the clock went back
  EXPECT_EQ(TryAcquire(&second), 1001u);
  second.Resign();
  now_ = 2000;
  EXPECT_EQ(TryAcquire(&first), 2000u);
}

TEST_F(FileLeaseTest, TheDeathOfAProcessFreesItAtOnceAndAStopDoesNot) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t leader = fork();
  if (leader == 0) {
    FileLease lease = Make("child");
    const auto number = lease.TryAcquire();
    const char led = number.ok() && number->has_value() ? 'y' : 'n';
    if (write(pipe_ends[1], &led, 1) != 1) _exit(1);
    while (true) pause();
  }
  char led = 0;
  ASSERT_EQ(read(pipe_ends[0], &led, 1), 1);
  EXPECT_EQ(led, 'y');
  FileLease lease = Make("c1");
  kill(leader, SIGSTOP);
  EXPECT_EQ(TryAcquire(&lease), 0u);
  EXPECT_EQ(lease.leader(), "child");
  kill(leader, SIGKILL);
  waitpid(leader, nullptr, 0);
  EXPECT_EQ(TryAcquire(&lease), 1001u);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(FileLeaseTest, AFileThatWasReplacedIsLostBeforeAnotherLeadsByIt) {
  FileLease first = Make("c0");
  ASSERT_EQ(TryAcquire(&first), 1000u);
  EXPECT_EQ(first.Keep(), absl::OkStatus());
  std::filesystem::remove(path_);
  EXPECT_EQ(first.Keep().code(), absl::StatusCode::kAborted);
}

TEST_F(FileLeaseTest, WhatALeaderThatDiedWritingLeftIsRead) {
  Write("1234 c0\nname\n");
  FileLease lease = Make("c1");
  EXPECT_EQ(TryAcquire(&lease), 1235u);
}

TEST_F(FileLeaseTest, AFileOfSomebodyElsesIsLeftAlone) {
  for (const std::string text :
       {"model = demo\n", "12", "12 a b", "-1 c0", "99999999999 c0", "12 /etc", "\n"}) {
    Write(text);
    FileLease lease = Make("c0");
    const auto number = lease.TryAcquire();
    EXPECT_EQ(number.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(number.status().message()), HasSubstr(path_));
  }
}

TEST_F(FileLeaseTest, AFolderThatIsNotThereIsNamed) {
  FileLease lease("/nowhere/leader", "c0");
  const auto number = lease.TryAcquire();
  EXPECT_THAT(std::string(number.status().message()), HasSubstr("cannot open /nowhere/leader"));
}

}  // namespace
}  // namespace tutti::coordinator
