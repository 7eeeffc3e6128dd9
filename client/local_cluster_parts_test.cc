// The parts of a local cluster that need no processes: logs, the machine's memory, restart delays.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/local_paths.h"
#include "client/log_file.h"
#include "client/restart_policy.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

class LogFileTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
  void Append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  const std::string path_ = ::testing::TempDir() + "log_file_test.log";
  LogFile log_{path_};
};

using Lines = std::vector<std::string>;

TEST_F(LogFileTest, GivesEveryWholeLineOnce) {
  EXPECT_EQ(log_.ReadNewLines(), Lines());
  Append("one\ntwo\nthr");
  EXPECT_EQ(log_.ReadNewLines(), (Lines{"one", "two"}));
  EXPECT_EQ(log_.ReadNewLines(), Lines());
  Append("ee\n");
  EXPECT_EQ(log_.ReadNewLines(), (Lines{"three"}));
}

TEST_F(LogFileTest, StartsOverWhenTheFileWasCut) {
  Append("a long line before the cut\n");
  EXPECT_EQ(log_.ReadNewLines().size(), 1u);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(log_.ReadNewLines(), Lines());
  Append("new\n");
  EXPECT_EQ(log_.ReadNewLines(), (Lines{"new"}));
}

TEST_F(LogFileTest, PassesOnALineLongerThanTheWindowInPieces) {
  const std::string line(static_cast<size_t>(kLastLogBytes) * 2, 'x');
  Append(line + "\nend\n");
  std::string got;
  for (int i = 0; i < 4; ++i) {
    for (const std::string& piece : log_.ReadNewLines()) got += piece;
  }
  EXPECT_EQ(got, line + "end");
}

TEST_F(LogFileTest, LastLinesAreTheLastOnes) {
  EXPECT_EQ(log_.LastLines(3), Lines());
  for (int i = 0; i < 10; ++i) Append(absl::StrCat("line ", i, "\n"));
  EXPECT_EQ(log_.LastLines(2), (Lines{"line 8", "line 9"}));
  EXPECT_EQ(log_.LastLines(100).size(), 10u);
}

TEST_F(LogFileTest, IsCutBackWhenTooLarge) {
  Append("x\n");
  std::filesystem::resize_file(path_, static_cast<uintmax_t>(kLogBytesMax) + 1);  // sparse
  log_.Bound();
  EXPECT_EQ(std::filesystem::file_size(path_), 0u);
}

TEST(LocalPaths, PrivateDirIsOurs) {
  const auto dir = MakePrivateDir();
  ASSERT_TRUE(dir.ok()) << dir.status();
  EXPECT_EQ(std::filesystem::status(*dir).permissions(), std::filesystem::perms::owner_all);
  std::filesystem::remove(*dir);
  EXPECT_EQ(ProgramBeside("no-such-program").status().code(), absl::StatusCode::kNotFound);
}

TEST(RestartPolicy, DoublesThenGivesUp) {
  RestartPolicy policy;
  EXPECT_EQ(policy.OnDeath(milliseconds(1)), milliseconds(200));
  EXPECT_EQ(policy.OnDeath(milliseconds(1)), milliseconds(400));
  for (int i = 2; i < kRestartsMax; ++i) {
    const auto delay = policy.OnDeath(milliseconds(1));
    ASSERT_TRUE(delay);
    EXPECT_LE(*delay, milliseconds(kRestartDelayMaxMs));
  }
  EXPECT_EQ(policy.OnDeath(milliseconds(1)), std::nullopt);
}

TEST(RestartPolicy, ForgetsAfterAQuietTime) {
  RestartPolicy policy;
  for (int i = 0; i < 3; ++i) (void)policy.OnDeath(milliseconds(1));
  EXPECT_EQ(policy.OnDeath(milliseconds(kRestartQuietMs)), milliseconds(200));
}

}  // namespace
}  // namespace tutti::client
