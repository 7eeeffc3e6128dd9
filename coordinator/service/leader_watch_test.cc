#include "coordinator/service/leader_watch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

// A port of a process that lives until Kill().
class Port {
 public:
  Port() { Listen(0); }
  ~Port() { Kill(); }
  void Listen(uint16_t port) {
    listener_ = transport::Descriptor(socket(AF_INET, SOCK_STREAM, 0));
    const int on = 1;
    setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    port_ = ntohs(name.sin_port);
  }
  // Takes the connection that waits, and ends it.
  void EndConnection() { transport::Descriptor(accept(listener_.get(), nullptr, nullptr)).Reset(); }
  void Kill() { listener_.Reset(); }
  uint16_t port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  transport::Descriptor listener_;
  uint16_t port_ = 0;
};

TEST(LeaderWatchTest, APortThatWasThereAndRefusesHasNobodyBehindIt) {
  Port port;
  LeaderWatch watch({{"c0", port.address()}});
  EXPECT_FALSE(watch.HasEnded("c0", 1));
  EXPECT_FALSE(watch.HasEnded("c0", 1));
  port.Kill();
  for (int refusals = 1; refusals < kRefusalsMin; ++refusals) {
    EXPECT_FALSE(watch.HasEnded("c0", 1)) << "one may be a listener that is opened anew";
  }
  EXPECT_TRUE(watch.HasEnded("c0", 1));
  EXPECT_FALSE(watch.HasEnded("c0", 2)) << "in another term it has not been there yet";
  EXPECT_FALSE(watch.HasEnded("c0", 2));
}

TEST(LeaderWatchTest, AConnectionThatEndsSaysNothingWhileThePortAnswers) {
  Port port;
  LeaderWatch watch({{"c0", port.address()}});
  EXPECT_FALSE(watch.HasEnded("c0", 1));
  for (int i = 0; i < 3; ++i) {
    port.EndConnection();
    EXPECT_FALSE(watch.HasEnded("c0", 1));
  }
}

TEST(LeaderWatchTest, ALeaderWithoutAnAddressIsNotKnownToHaveEnded) {
  LeaderWatch watch({{"c1", "127.0.0.1:1"}, {"c2", "nonsense"}});
  for (const char* name : {"c0", "c1", "c2"}) {
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch.HasEnded(name, 1)) << name;
  }
}

TEST(LeaderWatchTest, AUnixSocketToo) {
  const TempDir folder;
  sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = folder.path() + "/c0.sock";
  ASSERT_LT(path.size(), sizeof(name.sun_path));
  path.copy(name.sun_path, path.size());
  transport::Descriptor listener(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  LeaderWatch watch({{"c0", "unix:" + path}});
  EXPECT_FALSE(watch.HasEnded("c0", 1));
  listener.Reset();
  for (int refusals = 1; refusals < kRefusalsMin; ++refusals) watch.HasEnded("c0", 1);
  EXPECT_TRUE(watch.HasEnded("c0", 1));
}

}  // namespace
}  // namespace tutti::coordinator
