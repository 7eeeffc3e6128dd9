// The watch over sockets that somebody else reads, or does not.
#include "transport/connection_watch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

struct Pair {
  Descriptor ours, theirs;
};

Pair TcpPair() {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size);
  Pair pair;
  pair.theirs.Reset(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(pair.theirs.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  pair.ours.Reset(accept(listener.get(), nullptr, nullptr));
  return pair;
}

Pair UnixPair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

class ConnectionWatchTest : public testing::Test {
 protected:
  // As long as the looks of the watch's thread are apart.
  void Look(int times = 1) {
    for (int i = 0; i < times; ++i) watch_.Look(now_ += kLookInterval);
  }
  // Waits until all that was sent has come.
  static void Send(const Pair& pair, int64_t bytes) {
    const std::string data(static_cast<size_t>(bytes), 'x');
    EXPECT_EQ(send(pair.theirs.get(), data.data(), data.size(), MSG_NOSIGNAL), bytes);
    pollfd waiting{.fd = pair.ours.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&waiting, 1, 20000), 1);
  }
  static void Read(const Pair& pair, int64_t bytes) {
    std::string data(static_cast<size_t>(bytes), ' ');
    EXPECT_EQ(recv(pair.ours.get(), data.data(), data.size(), MSG_WAITALL), bytes);
  }
  void Flood(const Pair& pair, int64_t bytes) {
    for (int64_t sent = 0; sent < bytes; sent += 16 << 10) {
      Send(pair, 16 << 10);
      Read(pair, 16 << 10);
    }
  }
  static bool IsClosed(const Descriptor& fd) {
    char byte;
    return recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  }
  std::shared_ptr<ConnectionCredit> CreditOf(const Pair& pair) {
    return book_.Find(PeerNameOf(SocketAddress::OfOtherEnd(pair.ours.get())));
  }

  CreditBook book_;
  Duration unread_{};
  Instant now_ = SystemClock().Now();
  ConnectionWatch watch_{{.port = "test",
                          .book = &book_,
                          .on_unread = [this](Duration gap) { unread_ += gap; },
                          .on_cut = [this](const std::string& account) { slowed_ = account; }}};
  std::string slowed_;
};

TEST_F(ConnectionWatchTest, AFloodIsCutAndWhatItHasSentIsThrownAway) {
  const Pair pair = TcpPair();
  watch_.Add(pair.ours.get());
  Look();
  Flood(pair, kDebtBytesMax);
  Look();
  EXPECT_EQ(watch_.cut(), 0);
  Flood(pair, 64 << 10);
  Send(pair, 100 << 10);
  Look();
  EXPECT_EQ(watch_.cut(), 1);
  EXPECT_TRUE(IsClosed(pair.ours)) << "nothing is left to read";
  EXPECT_TRUE(IsClosed(pair.theirs));
  EXPECT_EQ(slowed_, "127.0.0.1");
}

TEST_F(ConnectionWatchTest, RequestsAndTrustedPeersAreNotCut) {
  const Pair client = TcpPair(), peer = TcpPair();
  watch_.Add(client.ours.get());
  watch_.Add(peer.ours.get());
  Look();
  CreditOf(peer)->Trust();
  for (int i = 0; i < 4; ++i) {
    CreditOf(client)->BeginRead();
    Flood(client, kDebtBytesMax);
    CreditOf(client)->EndRead(kDebtBytesMax);
    Flood(peer, kDebtBytesMax);
    Look();
  }
  EXPECT_EQ(watch_.cut(), 0);
}

// What connections of an account may owe together where one was cut.
TEST_F(ConnectionWatchTest, WhereOneWasCutOthersAreLentTheSameBytesOnce) {
  const Pair cut = TcpPair(), client = TcpPair(), flood = TcpPair();
  for (const Pair* pair : {&cut, &client, &flood}) watch_.Add(pair->ours.get());
  Look();
  Flood(cut, 2 * kDebtBytesMax);
  Look();
  ASSERT_EQ(watch_.cut(), 1);
  const auto of_client = CreditOf(client), of_flood = CreditOf(flood);
  constexpr int kMessages = 32;
  for (int i = 0; i < kMessages; ++i) {
    of_client->BeginRead();
    of_flood->BeginRead();
  }
  const auto send = [this](const Pair& pair, int64_t bytes) {
    const int64_t before = watch_.cut();
    for (int64_t sent = 0; sent < bytes && watch_.cut() == before; sent += kMessageBytesMax / 2) {
      Flood(pair, kMessageBytesMax / 2);
      Look();
    }
  };
  send(client, 4 * kMessageBytesMax);
  EXPECT_EQ(watch_.cut(), 1) << "three of the largest are lent";
  send(flood, kLentBytesMax - 3 * kMessageBytesMax);
  EXPECT_EQ(watch_.cut(), 1) << "as what is left";
  send(flood, 2 * kMessageBytesMax);
  EXPECT_EQ(watch_.cut(), 2);
  EXPECT_FALSE(IsClosed(client.theirs)) << "who had it first keeps it";
  for (int i = 0; i < kMessages; ++i) of_client->EndRead(kMessageBytesMax);
  Look();
  for (int i = 0; i < kMessages; ++i) of_client->BeginRead();
  send(client, kMessageBytesMax);
  EXPECT_EQ(watch_.cut(), 2) << "the first is lent by nobody";
  send(client, 5 * kMessageBytesMax);
  EXPECT_EQ(watch_.cut(), 3) << "the flood's is missing";
}

TEST_F(ConnectionWatchTest, ADescriptorThatIsAnotherSocketNowIsLeftAlone) {
  Pair pair = TcpPair();
  watch_.Add(pair.ours.get());
  Look();
  const std::string name = PeerNameOf(SocketAddress::OfOtherEnd(pair.ours.get()));
  const auto credit = book_.Find(name);
  const Pair other = TcpPair();
  ASSERT_EQ(dup2(other.ours.get(), pair.ours.get()), pair.ours.get());
  Flood(other, 4 * kDebtBytesMax);
  Look(2);
  EXPECT_EQ(watch_.cut(), 0);
  EXPECT_NE(book_.Find(name), credit) << "the first one's credit is forgotten";
}

TEST_F(ConnectionWatchTest, BytesThatNobodyReadsAreAStall) {
  for (const bool tcp : {true, false}) {
    const Pair pair = tcp ? TcpPair() : UnixPair();
    watch_.Add(pair.ours.get());
    if (tcp) CreditOf(pair)->Trust();
    Look(2);
    unread_ = {};
    Send(pair, 100);
    Look();
    EXPECT_EQ(unread_, Duration::zero()) << "they may have come just now";
    Look(3);
    EXPECT_EQ(unread_, Duration(3 * kLookInterval));
    Read(pair, 100);
    Look(3);
    EXPECT_EQ(unread_, Duration(3 * kLookInterval));
  }
}

TEST_F(ConnectionWatchTest, BytesOfStrangersAreNobodysStall) {
  const Pair pair = TcpPair();
  watch_.Add(pair.ours.get());
  Send(pair, 100);
  Look(5);
  EXPECT_EQ(unread_, Duration::zero());
}

TEST(PausesTest, AddUpUntilTheyAreOver) {
  Pauses pauses;
  const Instant now{std::chrono::hours(1)};
  const Duration second = std::chrono::seconds(1);
  EXPECT_EQ(pauses.Add(now, kPausesForgiven), Duration::zero()) << "the first are forgiven";
  EXPECT_EQ(pauses.Add(now, 2 * second), 2 * second);
  EXPECT_EQ(pauses.Add(now, 3 * second), 5 * second);
  EXPECT_EQ(pauses.Add(now + 4 * second, second), 2 * second);
  EXPECT_EQ(pauses.Add(now + 9 * second, 4 * second), second) << "three were over";
  EXPECT_EQ(pauses.Add(now + std::chrono::hours(1), kPausesForgiven), Duration::zero());
  EXPECT_EQ(pauses.Add(now + std::chrono::hours(1), std::chrono::hours(1)), kPausesMax);
}

TEST(CreditBookTest, ConnectionsOfAnAccountWaitForEachOther) {
  CreditBook book;
  const Instant now{std::chrono::hours(1)};
  const Duration second = std::chrono::seconds(1);
  const auto first = book.Open("ipv4:10.0.0.1:1", "10.0.0.1");
  EXPECT_EQ(first->AddPause(now, kPausesForgiven + second), second);
  EXPECT_EQ(book.Open("ipv4:10.0.0.1:2", "10.0.0.1")->AddPause(now, second), 2 * second);
  EXPECT_EQ(book.Open("ipv4:10.0.0.2:1", "10.0.0.2")->AddPause(now, second), Duration::zero())
      << "another";
  book.Close("ipv4:10.0.0.1:1", first);
  EXPECT_EQ(book.Open("ipv4:10.0.0.1:3", "10.0.0.1")->AddPause(now, second), 3 * second)
      << "who comes again has not been forgotten";
  EXPECT_EQ(book.Find("unix:")->AddPause(now, kPausesForgiven + second), second);
  EXPECT_EQ(book.Find("unix:/run/tutti.sock")->AddPause(now, second), 2 * second);
}

// Accounts are as many as a stranger has addresses.
TEST(CreditBookTest, AccountsWithoutAConnectionAreForgotten) {
  CreditBook book;
  const Instant now{std::chrono::hours(1)};
  const auto stays = book.Open("ipv4:10.0.0.1:1", "stays");
  stays->AddPause(now, kPausesForgiven);
  for (size_t i = 0; i <= kPausesKept; ++i) {
    const std::string account = absl::StrCat(i);
    book.Close(account, book.Open(account, account));
  }
  EXPECT_LE(book.accounts(), kPausesKept + 2);
  book.Open("last", "last");
  EXPECT_LE(book.accounts(), 3U);
  EXPECT_EQ(book.Open("ipv4:10.0.0.1:2", "stays")->AddPause(now, kPausesForgiven), kPausesForgiven);
}

TEST(CreditBookTest, NamesAreThoseThatGrpcGives) {
  SocketAddress address;
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.bytes);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(4711);
  inet_pton(AF_INET6, "fe80::1", &v6->sin6_addr);
  v6->sin6_scope_id = 2;
  address.size = sizeof(*v6);
  CreditBook book;
  const auto credit = book.Open(PeerNameOf(address), "fe80::/64");
  EXPECT_EQ(book.Find("ipv6:%5Bfe80::1%252%5D:4711"), credit);
  inet_pton(AF_INET6, "::ffff:10.0.0.7", &v6->sin6_addr);
  EXPECT_EQ(PeerNameOf(address), "ipv4:10.0.0.7:4711");
}

}  // namespace
}  // namespace tutti::transport
