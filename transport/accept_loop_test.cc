#include "transport/accept_loop.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::chrono::seconds kPatience{20};

// An accept loop, and the connections it has handed over.
class AcceptLoopTest : public testing::Test {
 protected:
  void Listen(ConnectionBounds bounds, bool expects_tls = false) {
    auto loop = AcceptLoop::Listen(
        {.address = "127.0.0.1:0", .bounds = bounds, .expects_tls = expects_tls});
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    loop_->Start([this](int fd, bool is_own_call) {
      const MutexLock lock(&mutex_);
      handed_over_.emplace_back(fd);
      own_calls_ += is_own_call;
      changed_.NotifyAll();
    });
  }
  ~AcceptLoopTest() override {
    if (loop_ != nullptr) loop_->Stop();
  }

  // `from`: a loopback address of this machine.
  Descriptor Connect(const std::string& bytes, const std::string& from = "127.0.0.1") {
    Descriptor fd(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_TRUE(Speak(fd, bytes, from));
    return fd;
  }
  // False: the connection is refused.
  bool Speak(const Descriptor& fd, const std::string& bytes, const std::string& from) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    inet_pton(AF_INET, from.c_str(), &at.sin_addr);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0);
    const std::string& address = loop_->address();
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    at.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) return false;
    (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return true;
  }
  bool WaitForHandedOver(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (handed_over_.size() < count && changed_.WaitUntil(&mutex_, deadline)) continue;
    return handed_over_.size() >= count;
  }
  static bool IsClosedByPeer(const Descriptor& fd) {
    pollfd waiting{.fd = fd.get(), .events = POLLIN, .revents = 0};
    char byte;
    return poll(&waiting, 1, 20000) == 1 && recv(fd.get(), &byte, 1, 0) <= 0;
  }

  std::unique_ptr<AcceptLoop> loop_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Descriptor> handed_over_ ABSL_GUARDED_BY(mutex_);
  int own_calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(AcceptLoopTest, OnlyConnectionsThatSpeakAreHandedOver) {
  Listen({.total = 100, .per_account = 100});
  const Descriptor silent = Connect(""), half = Connect("PRI * HT"),
                   wrong = Connect("GET / HTTP/1.1"), tls = Connect("\x16\x03\x01"),
                   whole = Connect(kPreface);
  EXPECT_TRUE(WaitForHandedOver(1));
  EXPECT_TRUE(IsClosedByPeer(wrong));
  EXPECT_TRUE(IsClosedByPeer(tls));
  EXPECT_EQ(loop_->counts().handed_over, 1);
  (void)!send(half.get(), kPreface + 8, 16, MSG_NOSIGNAL);
  EXPECT_TRUE(WaitForHandedOver(2));
  // Bytes that the loop has looked at are there for the next reader.
  char bytes[25] = "";
  const MutexLock lock(&mutex_);
  EXPECT_EQ(recv(handed_over_[1].get(), bytes, 24, 0), 24);
  EXPECT_STREQ(bytes, kPreface);
}

TEST_F(AcceptLoopTest, WithCertificatesATlsHandshakeIsExpected) {
  Listen({.total = 100, .per_account = 100}, /*expects_tls=*/true);
  const Descriptor plain = Connect(kPreface), tls = Connect("\x16\x03\x01");
  EXPECT_TRUE(IsClosedByPeer(plain));
  EXPECT_TRUE(WaitForHandedOver(1));
}

TEST_F(AcceptLoopTest, SilentConnectionsMakeWayTheOldestFirst) {
  Listen({.total = 20, .per_account = 10});
  std::vector<Descriptor> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(Connect(""));
  const Descriptor speaks = Connect(kPreface);
  EXPECT_TRUE(WaitForHandedOver(1));
  EXPECT_TRUE(IsClosedByPeer(silent[0]));
  EXPECT_EQ(loop_->counts().refused, 0);
  EXPECT_GE(loop_->counts().evicted, 41);
}

TEST_F(AcceptLoopTest, OneAddressCannotTakeAllPlacesAndGetsItsOwnBack) {
  Listen({.total = 10, .per_account = 4});
  std::vector<Descriptor> greedy;
  for (int i = 0; i < 4; ++i) greedy.push_back(Connect(kPreface, "127.0.0.9"));
  EXPECT_TRUE(WaitForHandedOver(4));
  EXPECT_TRUE(IsClosedByPeer(Connect(kPreface, "127.0.0.9")));
  EXPECT_EQ(loop_->counts().refused, 1);
  const Descriptor innocent = Connect(kPreface, "127.0.0.1");
  EXPECT_TRUE(WaitForHandedOver(5));
  // Whoever got the connections closes them, and tells nobody.
  {
    const MutexLock lock(&mutex_);
    handed_over_.clear();
  }
  const Descriptor again = Connect(kPreface, "127.0.0.9");
  EXPECT_TRUE(WaitForHandedOver(1));
}

TEST_F(AcceptLoopTest, ASlowedAddressGetsInByAndByAndOthersAtOnce) {
  Listen({.total = 100, .per_account = 100});
  loop_->SlowDown("127.0.0.9");
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Descriptor> slowed;
  for (int i = 0; i < 3; ++i) slowed.push_back(Connect(kPreface, "127.0.0.9"));
  const Descriptor innocent = Connect(kPreface, "127.0.0.1");
  EXPECT_TRUE(WaitForHandedOver(2)) << "the first of the one, and the other";
  EXPECT_TRUE(WaitForHandedOver(4));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2 * kSlowedPause);
  EXPECT_EQ(loop_->counts().refused, 0);
}

TEST_F(AcceptLoopTest, ThisProcessReachesItselfThroughAFullPort) {
  Listen({.total = 1, .per_account = 1});
  const Descriptor taken = Connect(kPreface);
  EXPECT_TRUE(WaitForHandedOver(1));
  auto call = loop_->PrepareCall();
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_NE(connect(call->fd.get(), call->to.get(), call->to.size), 1);
  pollfd waiting{.fd = call->fd.get(), .events = POLLOUT, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 20000), 1);
  EXPECT_EQ(send(call->fd.get(), kPreface, 24, MSG_NOSIGNAL), 24);
  EXPECT_TRUE(WaitForHandedOver(2));
  const MutexLock lock(&mutex_);
  EXPECT_EQ(own_calls_, 1);
}

// The descriptor at this process's end of a connection that `client` is the other end of.
int ServerEndOf(const Descriptor& client) {
  const SocketAddress name = SocketAddress::OfThisEnd(client.get());
  for (int fd = 0; fd < 1024; ++fd) {
    if (fd != client.get() && SocketAddress::OfOtherEnd(fd) == name) return fd;
  }
  return -1;
}

// A connection is closed to make room while an event of its own still waits to be looked at, and
// its number becomes another port's socket.
TEST_F(AcceptLoopTest, AnEventOfAClosedConnectionTakesNothingFromAnotherPort) {
  auto opened = OpenListeningSockets("127.0.0.1:0");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Descriptor other_port = std::move(opened->sockets[0]);
  const SocketAddress other_address = SocketAddress::OfThisEnd(other_port.get());
  auto loop = AcceptLoop::Listen(
      {.address = "127.0.0.1:0", .bounds = {.total = 3, .per_account = 3}, .expects_tls = false});
  ASSERT_TRUE(loop.ok()) << loop.status();
  loop_ = *std::move(loop);
  bool may_go_on = false;  // guarded by mutex_
  int evicted = -1;
  Descriptor reused, caller(socket(AF_INET, SOCK_STREAM, 0));
  loop_->Start([&](int fd, bool) {
    const MutexLock lock(&mutex_);
    handed_over_.emplace_back(fd);
    changed_.NotifyAll();
    // The first holds the loop back, so that what comes meanwhile is seen together.
    while (handed_over_.size() == 1 && !may_go_on) changed_.Wait(&mutex_);
    if (handed_over_.size() != 2) return;
    // By now the oldest has made way.
    ASSERT_EQ(fcntl(evicted, F_GETFD), -1);
    reused = Descriptor(dup2(other_port.get(), evicted));
    ASSERT_EQ(connect(caller.get(), other_address.get(), other_address.size), 0);
  });
  const Descriptor oldest = Connect(""), speaks = Connect("");
  const Descriptor first = Connect(kPreface);
  ASSERT_TRUE(WaitForHandedOver(1));
  evicted = ServerEndOf(oldest);
  ASSERT_GE(evicted, 0);
  // In the order of their events: one too many, one that speaks, and the one that must go.
  const Descriptor newcomer = Connect("");
  (void)!send(speaks.get(), kPreface, 24, MSG_NOSIGNAL);
  (void)!send(oldest.get(), "P", 1, MSG_NOSIGNAL);
  {
    const MutexLock lock(&mutex_);
    may_go_on = true;
    changed_.NotifyAll();
  }
  ASSERT_TRUE(WaitForHandedOver(2));
  // One more, which the loop gets to when it is through with those.
  const Descriptor last = Connect(kPreface);
  ASSERT_TRUE(WaitForHandedOver(3));
  loop_->Stop();
  EXPECT_GE(Descriptor(accept(other_port.get(), nullptr, nullptr)).get(), 0)
      << "the other port's caller was taken";
}

// Nobody is left waiting on a connection that came while the port was closed.
TEST_F(AcceptLoopTest, WhenItHasStoppedAllConnectionsEndAlsoThoseOfTheLastMoment) {
  Listen({.total = 1000, .per_account = 1000});
  std::vector<Descriptor> callers;
  for (int i = 0; i < 5; ++i) callers.push_back(Connect(kPreface));
  EXPECT_TRUE(WaitForHandedOver(5));
  // Half of them are handed over, the others are silent or still in the backlog.
  for (int i = 0; i < 50; ++i) callers.push_back(Connect(i % 2 == 0 ? kPreface : ""));
  loop_->Stop();
  const auto handed_over = loop_->counts().handed_over;
  loop_->EndConnections();
  for (const Descriptor& caller : callers) EXPECT_TRUE(IsClosedByPeer(caller));
  EXPECT_EQ(loop_->counts().handed_over, handed_over);
}

TEST_F(AcceptLoopTest, ReopenedItAcceptsAtTheSameAddress) {
  Listen({.total = 10, .per_account = 10});
  loop_->Reopen();
  // The backlog of the socket that is closed may still take one, and until the next listens nobody
  // is heard.
  for (int i = 0; i < 100; ++i) {
    const Descriptor speaks(socket(AF_INET, SOCK_STREAM, 0));
    (void)Speak(speaks, kPreface, "127.0.0.1");
    const MutexLock lock(&mutex_);
    (void)changed_.WaitUntil(&mutex_,
                             std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    if (!handed_over_.empty()) break;
  }
  EXPECT_TRUE(WaitForHandedOver(1));
}

}  // namespace
}  // namespace tutti::transport
