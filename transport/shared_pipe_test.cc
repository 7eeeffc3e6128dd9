#include "transport/shared_pipe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

class SharedPipeTest : public ::testing::Test {
 protected:
  SharedPipeTest() { std::filesystem::create_directory(folder_); }
  ~SharedPipeTest() override { std::filesystem::remove_all(folder_); }

  bool FolderIsEmpty() const { return std::filesystem::is_empty(folder_); }
  std::string PathOf(const std::string& token) const {
    return absl::StrCat(folder_, "/tutti-", absl::BytesToHexString(token));
  }
  static v1::Frame Frame(uint64_t sequence) {
    v1::Frame frame;
    frame.set_epoch(3);
    frame.mutable_rank_exchange()->set_sequence(sequence);
    return frame;
  }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/shared_pipe_test.", ::getpid());
};

TEST_F(SharedPipeTest, FramesGoBothWays) {
  const auto first = SharedPipe::Create(folder_);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = SharedPipe::Open(folder_, (*first)->token());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(FolderIsEmpty());  // both have it

  const std::vector<std::byte> bytes(100'000, std::byte{7});
  const Payload payload{.chunks = {std::span(bytes).first(1000), std::span(bytes).subspan(1000)}};
  for (const auto& [from, to] :
       {std::pair(first->get(), second->get()), std::pair(second->get(), first->get())}) {
    EXPECT_FALSE((*to->TryReceive()).has_value());
    ASSERT_TRUE(*from->TrySend(Frame(1), payload));
    ASSERT_TRUE(*from->TrySend(Frame(2), {}));
    auto got = *to->TryReceive();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->frame.rank_exchange().sequence(), 1u);
    EXPECT_EQ(got->frame.epoch(), 3u);
    ASSERT_EQ(got->payload.chunks.size(), 1u);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), got->payload.chunks[0].begin(),
                           got->payload.chunks[0].end()));
    got = *to->TryReceive();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->frame.rank_exchange().sequence(), 2u);
    EXPECT_EQ(got->payload.size(), 0);
  }
}

TEST_F(SharedPipeTest, TheLargestPayloadFitsWhateverIsReadAndWhereItBegins) {
  const auto first = *SharedPipe::Create(folder_);
  const auto second = *SharedPipe::Open(folder_, first->token());
  const std::vector<std::byte> bytes(kPayloadBytesMax);
  for (uint64_t i = 1; i <= 50; ++i) {
    const Payload payload{.chunks = {std::span(bytes).subspan(i * 999)}};
    ASSERT_TRUE(*first->TrySend(Frame(i), payload)) << i;
    const auto got = *second->TryReceive();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->payload.size(), payload.size());
  }
}

TEST_F(SharedPipeTest, NothingIsLeftBehind) {
  { const auto pipe = *SharedPipe::Create(folder_); }
  EXPECT_TRUE(FolderIsEmpty());
}

// Before the other end came, or after: whatever is left by a killed process, the next removes.
TEST_F(SharedPipeTest, WhatAKilledProcessHasLeftIsSwept) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto mine = SharedPipe::Create(folder_);
    const char byte = mine.ok() ? 'y' : 'n';
    (void)!write(told[1], &byte, 1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  EXPECT_EQ(SharedPipe::Sweep(folder_), 0);  // it lives, and waits for its other end
  EXPECT_FALSE(FolderIsEmpty());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(FolderIsEmpty());
  EXPECT_EQ(SharedPipe::Sweep(folder_), 1);
  EXPECT_TRUE(FolderIsEmpty());
  close(told[0]);
  close(told[1]);
}

TEST_F(SharedPipeTest, SweepsNothingElse) {
  const auto mine = *SharedPipe::Create(folder_);
  std::vector<std::string> others = {"tutti-", "tutti-abc", "other",
                                     "tutti-" + std::string(32, 'g'),
                                     "tutti-" + std::string(32, 'a')};
  for (const std::string& name : others) std::ofstream(absl::StrCat(folder_, "/", name)) << "x";
  // One of the right name and mode that Create would never make.
  chmod(absl::StrCat(folder_, "/", others.back()).c_str(), 0600);
  EXPECT_EQ(SharedPipe::Sweep(folder_), 0);
  EXPECT_EQ(SharedPipe::Sweep("/no/such/folder"), 0);
  EXPECT_TRUE(SharedPipe::Open(folder_, mine->token()).ok());
}

TEST_F(SharedPipeTest, NoFlippedBitOfAFrameIsAccepted) {
  const auto first = *SharedPipe::Create(folder_);
  const int fd = open(PathOf(first->token()).c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  const auto second = *SharedPipe::Open(folder_, first->token());
  const std::string frame = Frame(1).SerializeAsString();
  // Where the first record lies; the others follow it.
  std::string memory(size_t{9} << 20, '\0');
  off_t begin = 0;
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    ASSERT_TRUE(*second->TrySend(Frame(1), {}));
    const ssize_t size = pread(fd, memory.data(), memory.size(), begin);
    ASSERT_GT(size, 0);
    const size_t at = memory.rfind(frame, static_cast<size_t>(size));
    ASSERT_NE(at, std::string::npos);
    const char flipped = static_cast<char>(frame[bit / 8] ^ 1 << bit % 8);
    ASSERT_EQ(pwrite(fd, &flipped, 1, begin + static_cast<off_t>(at + bit / 8)), 1);
    EXPECT_EQ(first->TryReceive().status().code(), absl::StatusCode::kDataLoss) << bit;
    begin += static_cast<off_t>(at);
    memory.resize(4096);
  }
  close(fd);
}

TEST_F(SharedPipeTest, TheFileIsTheOwnersAlone) {
  const auto pipe = *SharedPipe::Create(folder_);
  struct stat found {};
  ASSERT_EQ(stat(PathOf(pipe->token()).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(SharedPipeTest, SaysWhyTheFolderCannotBeUsed) {
  const auto missing = SharedPipe::Create("/no/such/folder");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/no/such/folder"), absl::string_view::npos);
}

TEST_F(SharedPipeTest, TakesNoFileThatIsNotOfItsMaking) {
  const std::string token(16, 'a');
  const auto code = [&] { return SharedPipe::Open(folder_, token).status().code(); };
  EXPECT_EQ(code(), absl::StatusCode::kNotFound);
  // Any 16 bytes are a token, a path's too: they become hexadecimal digits.
  EXPECT_EQ(SharedPipe::Open(folder_, "../../etc/passwd").status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string& wrong : {std::string(), std::string("../x"), token + "b"}) {
    EXPECT_EQ(SharedPipe::Open(folder_, wrong).status().code(), absl::StatusCode::kInvalidArgument);
  }

  std::ofstream(PathOf(token)) << "too short";
  chmod(PathOf(token).c_str(), 0600);
  EXPECT_EQ(code(), absl::StatusCode::kPermissionDenied);
  std::filesystem::remove(PathOf(token));

  // One that others may write to.
  const auto pipe = *SharedPipe::Create(folder_);
  chmod(PathOf(pipe->token()).c_str(), 0666);
  EXPECT_EQ(SharedPipe::Open(folder_, pipe->token()).status().code(),
            absl::StatusCode::kPermissionDenied);
  chmod(PathOf(pipe->token()).c_str(), 0600);

  // Links to it, and things that are no files.
  std::filesystem::create_symlink(PathOf(pipe->token()), PathOf(token));
  EXPECT_FALSE(SharedPipe::Open(folder_, token).ok());
  std::filesystem::remove(PathOf(token));
  ASSERT_EQ(mkfifo(PathOf(token).c_str(), 0600), 0);
  EXPECT_EQ(code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(SharedPipeTest, WhatIsNoFrameIsDataLoss) {
  const auto first = *SharedPipe::Create(folder_);
  // The other end, by hand.
  std::fstream file(PathOf(first->token()), std::ios::in | std::ios::out | std::ios::binary);
  const auto second = *SharedPipe::Open(folder_, first->token());
  ASSERT_TRUE(*second->TrySend(Frame(1), {}));
  std::string memory((std::istreambuf_iterator<char>(file)), {});
  const size_t at = memory.find(std::string("\x08\x03", 2), 4096);  // epoch 3
  ASSERT_NE(at, std::string::npos);
  file.clear();
  file.seekp(static_cast<std::streamoff>(at));
  file.write("\xff\xff", 2);
  file.flush();
  EXPECT_EQ(first->TryReceive().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace tutti::transport
