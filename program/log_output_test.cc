// Lines for descriptors that do not take them.
#include "program/log_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files_testing.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;

constexpr Duration kLong = std::chrono::seconds(30);

std::string SayMissing(int64_t missing) { return absl::StrCat(missing, " missing\n"); }

// A pipe that holds one page, whose writing end is somebody else's too.
struct Pipe {
  explicit Pipe(int flags = 0) {
    EXPECT_EQ(pipe2(ends, flags), 0);
    EXPECT_EQ(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
  }
  ~Pipe() { CloseReader(); }  // the writing end may be in use by a thread that hangs
  void CloseReader() {
    if (ends[0] >= 0) close(ends[0]);
    ends[0] = -1;
  }
  // The text that is there until `last` has come.
  std::string ReadUntil(const std::string& last) const {
    std::string text;
    char bytes[4096];
    while (text.find(last) == std::string::npos) {
      const ssize_t count = read(ends[0], bytes, sizeof(bytes));
      if (count <= 0) break;
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }
  int ends[2] = {-1, -1};
};

double MillisecondsOf(const std::function<void()>& work) {
  const auto begin = steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count();
}

TEST(LogOutputTest, LinesArriveInTheirOrder) {
  const TempDir folder;
  const int fd = open(folder.File("log").c_str(), O_WRONLY | O_CREAT, 0600);
  LogOutput output({.fd = fd}, SayMissing);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    output.Write(absl::StrCat("line ", i, "\n"));
    absl::StrAppend(&expected, "line ", i, "\n");
  }
  EXPECT_TRUE(output.Flush(kLong));
  EXPECT_EQ(ReadWholeFile(folder.File("log")), expected);
  close(fd);
}

// A text of somebody else's is not the whole log.
TEST(LogOutputTest, ALineThatIsTooLongIsCut) {
  const TempDir folder;
  const int fd = open(folder.File("log").c_str(), O_WRONLY | O_CREAT, 0600);
  LogOutput output({.fd = fd}, SayMissing);
  output.Write("before\n");
  output.Write(std::string(3 << 20, 'x') + "\n");
  output.Write("after\n");
  EXPECT_TRUE(output.Flush(kLong));
  const std::vector<std::string> lines = absl::StrSplit(ReadWholeFile(folder.File("log")), '\n');
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "before") << "it pushed nothing out";
  EXPECT_EQ(lines[1], std::string(64 << 10, 'x') + "...");
  EXPECT_EQ(lines[2], "after");
  close(fd);
}

// Ends of pipes block, or do not.
class UnreadPipeTest : public ::testing::TestWithParam<int> {};

TEST_P(UnreadPipeTest, NobodyWaitsAndTheLastLinesAreKept) {
  const Pipe pipe(GetParam());
  if (GetParam() == O_NONBLOCK) fcntl(pipe.ends[0], F_SETFL, 0);
  // Some 800 lines wait, of which the pipe takes half.
  LogOutput output({.fd = pipe.ends[1], .queued_bytes_max = 60000}, SayMissing);
  constexpr int kLines = 5000;
  EXPECT_LT(MillisecondsOf([&] {
              for (int i = 0; i < kLines; ++i) output.Write(absl::StrCat("line ", i, "\n"));
            }),
            5000);
  EXPECT_FALSE(output.Flush(milliseconds(20)));
  // Whoever reads in the end learns what is missing, where it is missing, and the last.
  const std::string text = pipe.ReadUntil(absl::StrCat("line ", kLines - 1, "\n"));
  int next = 0, missing = 0;
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.pop_back();
  for (const std::string& line : lines) {
    if (line.ends_with(" missing")) {
      missing += std::stoi(line);
      next += std::stoi(line);
    } else {
      ASSERT_EQ(line, absl::StrCat("line ", next++));
    }
  }
  EXPECT_EQ(next, kLines);
  EXPECT_GT(missing, kLines / 2);
  EXPECT_TRUE(output.Flush(kLong));
}

INSTANTIATE_TEST_SUITE_P(Ends, UnreadPipeTest, ::testing::Values(0, O_NONBLOCK));

TEST(LogOutputTest, TheEndComesWhileNobodyReads) {
  // Its thread may hang on, with the pipe.
  auto* const pipe = new Pipe;
  auto output = std::make_unique<LogOutput>(
      LogOutput::Options{.fd = pipe->ends[1], .last_words = milliseconds(100)}, SayMissing);
  for (int i = 0; i < 5000; ++i) output->Write("a line that is not read\n");
  const double took = MillisecondsOf([&] { output.reset(); });
  EXPECT_GE(took, 100);
  EXPECT_LT(took, 5000);
  // Where a search for leaks finds it.
  [[gnu::used]] static const Pipe* kept;
  kept = pipe;
}

TEST(LogOutputTest, TheLastWordsAreWrittenBeforeTheEnd) {
  const TempDir folder;
  const int fd = open(folder.File("log").c_str(), O_WRONLY | O_CREAT, 0600);
  { LogOutput({.fd = fd}, SayMissing).Write("the last\n"); }
  EXPECT_EQ(ReadWholeFile(folder.File("log")), "the last\n");
  close(fd);
}

TEST(LogOutputTest, AFullDiskIsToldOnceThereIsRoomAgain) {
  const TempDir folder;
  const int fd = open("/dev/full", O_WRONLY);
  LogOutput output({.fd = fd, .last_words = milliseconds(100), .retry_after = milliseconds(50)},
                   SayMissing);
  for (int i = 0; i < 3; ++i) output.Write("lost?\n");
  EXPECT_FALSE(output.Flush(kLong)) << "it fails, and nobody waits longer for it";
  // The descriptor leads to a disk with room from now on.
  const int room = open(folder.File("log").c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(room, fd);
  close(room);
  output.Write("after\n");
  const auto deadline = steady_clock::now() + kLong;
  while (!output.Flush(milliseconds(100)) && steady_clock::now() < deadline) continue;
  EXPECT_THAT(absl::StrSplit(ReadWholeFile(folder.File("log")), '\n'),
              ElementsAre("1 missing", "lost?", "lost?", "after", ""));
  close(fd);
}

TEST(LogOutputTest, AReaderThatHasGoneEndsNobody) {
  Pipe pipe;
  pipe.CloseReader();
  LogOutput output({.fd = pipe.ends[1], .retry_after = milliseconds(1)}, SayMissing);
  for (int i = 0; i < 3; ++i) output.Write("for nobody\n");
  EXPECT_FALSE(output.Flush(kLong));
}

}  // namespace
}  // namespace tutti
