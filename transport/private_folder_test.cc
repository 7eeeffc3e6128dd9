#include "transport/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/files_testing.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;

TEST(PrivateFolderTest, OnlyOursAloneIsPrivate) {
  const TempDir folder;
  EXPECT_TRUE(CheckPrivateFolder(folder.path()).ok());
  for (const mode_t mode : {0750, 0701, 0770, 0755, 01777}) {
    chmod(folder.path().c_str(), mode);
    const absl::Status checked = CheckPrivateFolder(folder.path());
    EXPECT_EQ(checked.code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(std::string(checked.message()), HasSubstr(folder.path()));
    EXPECT_FALSE(MakePrivateFolder(folder.path()).ok()) << "one that is there is not changed";
  }
  chmod(folder.path().c_str(), 0700);
  std::filesystem::create_symlink(folder.path(), folder.File("link"));
  EXPECT_FALSE(CheckPrivateFolder(folder.File("link")).ok());
  folder.Write("file", "");
  EXPECT_FALSE(CheckPrivateFolder(folder.File("file")).ok());
  EXPECT_FALSE(CheckPrivateFolder(folder.File("none")).ok());
  EXPECT_TRUE(MakePrivateFolder(folder.File("new")).ok());
  EXPECT_TRUE(CheckPrivateFolder(folder.File("new")).ok());
  EXPECT_FALSE(MakePrivateFolder(folder.File("no/parent")).ok());
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder.File("new").c_str(), 12345, 12345), 0);
    EXPECT_FALSE(CheckPrivateFolder(folder.File("new")).ok()) << "somebody else's";
  }
}

// A service runs as a user who can make nothing in /run, and has its own folder there
// (RuntimeDirectory=tutti, XDG_RUNTIME_DIR=/run). Where it has none it takes the other one.
TEST(PrivateFolderTest, AServiceTakesTheFolderThatItWasGiven) {
  const TempDir run;
  const uid_t user = geteuid() == 0 ? 12345 : geteuid();
  ASSERT_TRUE(MakePrivateFolder(run.File("tutti")).ok());
  ASSERT_EQ(chown(run.File("tutti").c_str(), user, static_cast<gid_t>(-1)), 0);
  setenv("XDG_RUNTIME_DIR", run.path().c_str(), 1);
  const std::string given = run.File("tutti");
  ASSERT_EQ(chmod(run.path().c_str(), 0555), 0);
  const auto folder_as_user = [&]() -> std::string {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      if (geteuid() == 0 && setresuid(user, user, user) != 0) _exit(1);
      const std::string folder = RuntimeFolder();
      (void)!write(ends[1], folder.data(), folder.size());
      _exit(0);
    }
    close(ends[1]);
    char text[256];
    const ssize_t count = read(ends[0], text, sizeof(text));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return std::string(text, count > 0 ? static_cast<size_t>(count) : 0);
  };
  EXPECT_EQ(folder_as_user(), given);
  ASSERT_EQ(chmod(run.path().c_str(), 0755), 0);
  std::filesystem::remove(given);
  ASSERT_EQ(chmod(run.path().c_str(), 0555), 0);
  EXPECT_EQ(folder_as_user(), "/tmp/tutti-" + std::to_string(user)) << "it could make none there";
  unsetenv("XDG_RUNTIME_DIR");
  ASSERT_EQ(chmod(run.path().c_str(), 0700), 0);
}

TEST(PrivateFolderTest, FolderOfASocket) {
  EXPECT_EQ(SocketFolder("unix:/run/tutti/w0.sock"), "/run/tutti");
  EXPECT_EQ(SocketFolder("unix:/w0.sock"), "/");
  EXPECT_EQ(SocketFolder("unix:w0.sock"), ".");
  EXPECT_EQ(SocketFolder("127.0.0.1:5"), "");
}

TEST(PrivateFolderTest, TheOperatorsSocketIsFoundByThePublicAddress) {
  const TempDir folder;
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const std::string address = OperatorAddress("127.0.0.1:17");
  EXPECT_EQ(address, "unix:" + folder.File("tutti/operator-17.sock"));
  for (const char* same : {"localhost:17", "[::1]:17", "0.0.0.0:17", "[::]:17"}) {
    EXPECT_EQ(OperatorAddress(same), address);
  }
  EXPECT_NE(OperatorAddress("127.0.0.1:18"), address);
  EXPECT_NE(OperatorAddress("node7:17"), address) << "another machine's";
  EXPECT_NE(OperatorAddress("unix:/a/api"), OperatorAddress("unix:/b/api"));
  EXPECT_TRUE(absl::IsNotFound(FindOperatorAddress("127.0.0.1:17").status()));
  // A socket there.
  ASSERT_TRUE(MakePrivateFolder(folder.File("tutti")).ok());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  address.copy(name.sun_path, sizeof(name.sun_path) - 1, 5);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  EXPECT_EQ(*FindOperatorAddress("localhost:17"), address);
  EXPECT_TRUE(absl::IsUnavailable(ClaimSocket(address))) << "in use";
  close(listener);
  EXPECT_TRUE(ClaimSocket(address).ok()) << "left behind by a process that ended";
  EXPECT_FALSE(std::filesystem::exists(name.sun_path));
  EXPECT_TRUE(ClaimSocket(address).ok());
  unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace tutti::transport
