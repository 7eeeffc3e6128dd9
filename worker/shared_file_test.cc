#include "worker/shared_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/files_testing.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

struct SharedFileTest : testing::Test {
  TempDir dir;
  const std::string path = dir.File("speeds");
};

TEST_F(SharedFileTest, WhoIsToldToStopDoesNotWaitForTheFile) {
  const SharedFile held(path);
  ASSERT_TRUE(held.ok());
  int looks = 0;
  const SystemClock clock;
  const Instant begin = clock.Now();
  const SharedFile waits(
      path, [&] { return ++looks < 3 ? absl::OkStatus() : absl::CancelledError("told to stop"); });
  EXPECT_FALSE(waits.ok());
  EXPECT_TRUE(absl::IsCancelled(waits.status())) << waits.status();
  EXPECT_LT(clock.Now() - begin, kSharedFilePatience / 4);
}

TEST_F(SharedFileTest, AFileThatCannotBeOpenedSaysWhy) {
  const SharedFile none("/nonexistent/file");
  EXPECT_FALSE(none.ok());
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
}

// As many machines of a shared folder, and builds, make it.
TEST_F(SharedFileTest, AFullFileKeepsTheNewest) {
  const std::string value(100, 'v');
  const SharedFile file(path);
  for (int i = 0; i < 3000; ++i) {
    const std::string key = absl::StrCat("machine-", i);
    ASSERT_TRUE(file.Append(key, absl::StrCat(value, i)));
    ASSERT_EQ(file.Find(key), absl::StrCat(value, i)) << "what was just said is there";
    ASSERT_LE(std::filesystem::file_size(path), kSharedFileBytesMax);
  }
  EXPECT_EQ(file.Find("machine-2900"), value + "2900");
  EXPECT_EQ(file.Find("machine-0"), "");
}

TEST_F(SharedFileTest, AFileOfSomethingElseIsMadeOne) {
  dir.Write("speeds", std::string(100'000, 'x') + "\nkept value\n" + std::string(100, 'y'));
  const SharedFile file(path);
  EXPECT_EQ(file.Find("kept"), "value");
  ASSERT_TRUE(file.Append("key", "1"));
  ASSERT_TRUE(file.Append("key", "2"));
  EXPECT_EQ(file.Find("key"), "2");
  EXPECT_EQ(file.Find("kept"), "value");
  EXPECT_LT(std::filesystem::file_size(path), 100u);
}

TEST_F(SharedFileTest, AFullFileWithoutAnyLineOfOursIsLeft) {
  const std::string text = std::string(100'000, 'x') + "\nthree words here\n";
  dir.Write("speeds", text);
  const SharedFile file(path);
  EXPECT_FALSE(file.Append("key", "1"));
  EXPECT_EQ(ReadWholeFile(path), text);
}

TEST_F(SharedFileTest, AnOlderValueDoesNotComeBack) {
  const std::string old = "key old\n";
  const std::string large = "key " + std::string(kSharedFileBytesMax / 2, 'v') + "\n";
  const std::string rest(kSharedFileBytesMax - old.size() - large.size() - 1, 'x');
  dir.Write("speeds", absl::StrCat(old, large, rest, "\n"));
  const SharedFile file(path);
  ASSERT_TRUE(file.Append("other", "1"));
  EXPECT_EQ(file.Find("other"), "1");
  EXPECT_EQ(file.Find("key"), "") << "the newest was too large to keep";
}

TEST_F(SharedFileTest, ALineThatWasCutOffDoesNotSpoilTheNext) {
  dir.Write("speeds", "key 1\nkey 2");
  const SharedFile file(path);
  ASSERT_TRUE(file.Append("other", "3"));
  EXPECT_EQ(file.Find("other"), "3");
  EXPECT_EQ(file.Find("key"), "2");
}

}  // namespace
}  // namespace tutti::worker
