#include "transport/listening_sockets.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace tutti::transport {
namespace {

std::string FreshFolder() {
  static int counter = 0;
  return absl::StrCat(::testing::TempDir(), "sockets-", getpid(), "-", ++counter);
}

mode_t ModeOf(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(lstat(path.c_str(), &found), 0) << path;
  return found.st_mode & 0777;
}

TEST(ListeningSocketsTest, AUnixSocketIsItsUsersAlone) {
  const std::string folder = FreshFolder();
  const mode_t mask = umask(0);
  const auto opened = OpenListeningSockets(absl::StrCat("unix:", folder, "/s"));
  umask(mask);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(ModeOf(folder), 0700u);
  EXPECT_EQ(ModeOf(folder + "/s"), 0600u);
  std::filesystem::remove_all(folder);
}

TEST(ListeningSocketsTest, ASocketThatAnEndedProcessLeftIsTakenOverAndNoOther) {
  const std::string folder = FreshFolder();
  const std::string address = absl::StrCat("unix:", folder, "/s");
  auto first = OpenListeningSockets(address);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(OpenListeningSockets(address).status().code(), absl::StatusCode::kUnavailable);
  first->sockets.clear();
  EXPECT_TRUE(std::filesystem::exists(folder + "/s"));
  EXPECT_TRUE(OpenListeningSockets(address).ok());
  // A file is not removed for a socket.
  const std::string file = folder + "/file";
  fclose(fopen(file.c_str(), "w"));
  EXPECT_FALSE(OpenListeningSockets("unix:" + file).ok());
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  std::filesystem::remove_all(folder);
}

TEST(ListeningSocketsTest, PortsAreFoundAndKept) {
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0", ""}) {
    const auto opened = OpenListeningSockets(absl::StrCat(host, ":0"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(opened->address.find(host), 0u);
    EXPECT_NE(opened->address, absl::StrCat(host, ":0"));
    const auto again = OpenListeningSockets(opened->address);
    EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(again.status().message().find("in use"), absl::string_view::npos) << again.status();
  }
}

TEST(ListeningSocketsTest, WhatIsNoAddressIsRefused) {
  for (const std::string& address :
       {std::string("here"), std::string("unix:"), "unix:/" + std::string(200, 'x'),
        std::string("127.0.0.1:nothing"), std::string("no.such.host.invalid:1")}) {
    EXPECT_FALSE(OpenListeningSockets(address).ok()) << address;
  }
}

}  // namespace
}  // namespace tutti::transport
