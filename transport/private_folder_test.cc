#include "transport/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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
