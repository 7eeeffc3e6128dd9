// The server over real connections, under a clock of the test's.
#include "gateway/http/server.h"

#include <atomic>
#include <thread>

#include "gateway/http/server_testing.h"

namespace tutti::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(ServerTest, AnswersRequestsThatComeTogetherInOrder) {
  Begin();
  TcpClient client(server_->address());
  client.Send(std::string(kGet) + kPost + "GET /three HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto exchange = handler_.held.get_future().get();
  EXPECT_EQ(exchange->request().body, "hi");
  OnLoop([&] {
    exchange->Begin({.body = "a"});
    exchange->Write("b");
    exchange->End();
    exchange->Reply({.body = "too late"});
  });
  const std::string all = client.Read("/three");
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(all, HasSubstr("/oneHTTP/1.1 200 OK"));
  EXPECT_THAT(all, HasSubstr("1\r\na\r\n1\r\nb\r\n0\r\n\r\nHTTP/1.1 200 OK"));
}

TEST_F(ServerTest, EndsRequestsThatTakeTooLong) {
  Begin();
  TcpClient idle(server_->address()), head(server_->address()), body(server_->address());
  idle.Send(kGet);
  idle.Read("/one");
  head.Send("GET / HT");
  body.Send(std::string(kPost).substr(0, sizeof(kPost) - 2));
  TcpClient after(server_->address());
  // Whoever is answered came after them.
  after.Send(kGet);
  after.Read("/one");
  clock_.Advance(kHeadTime);
  EXPECT_THAT(head.ReadAll(), StartsWith("HTTP/1.1 408"));
  clock_.Advance(kBodyTime - kHeadTime);
  EXPECT_THAT(body.ReadAll(), StartsWith("HTTP/1.1 408"));
  clock_.Advance(kIdleTime - kBodyTime);
  EXPECT_EQ(idle.ReadAll(), "");
}

TEST_F(ServerTest, EndsTheLongestIdleForANewcomer) {
  Begin(/*connections_max=*/2);
  TcpClient first(server_->address());
  first.Send(kGet);
  first.Read("/one");
  // The connection is idle when the loop has seen the end of its write, which is not yet seen when
  // the client has the bytes.
  for (int i = 0; i < 2; ++i) OnLoop([] {});
  clock_.Advance(std::chrono::seconds(1));
  TcpClient second(server_->address());
  second.Send(kGet);
  second.Read("/one");
  TcpClient third(server_->address());
  third.Send(kGet);
  EXPECT_THAT(third.Read("/one"), HasSubstr("200 OK"));
  EXPECT_EQ(first.ReadAll(), "");
  second.Send(kGet);
  EXPECT_THAT(second.Read("/one"), HasSubstr("200 OK"));
}

TEST_F(ServerTest, TellsTheHandlerOfClientsThatGo) {
  Begin();
  TcpClient client(server_->address());
  client.Send(kPost);
  const auto exchange = handler_.held.get_future().get();
  client.Close();
  while (handler_.gone == 0) std::this_thread::yield();
  OnLoop([&] {
    exchange->Reply({.body = "nobody"});
    EXPECT_EQ(server_->exchanges(), 0);
  });
}

// Its request may have been read by another thread until then.
TEST_F(ServerTest, TellsOfClientsThatHaveGoneBeforeTheHandlerAsked) {
  Begin();
  TcpClient client(server_->address());
  client.Send(kPost);
  const auto exchange = handler_.held.get_future().get();
  client.Close();
  while (handler_.gone == 0) std::this_thread::yield();
  OnLoop([&] { exchange->OnGone([this] { handler_.gone += 10; }); });
  EXPECT_EQ(handler_.gone, 11);
}

TEST_F(ServerTest, EndsClientsThatSendMoreThanIsKeptBeforeTheirAnswer) {
  Begin();
  TcpClient client(server_->address());
  client.Send(kPost + std::string(4 * kHeadBytesMax, 'x'));
  handler_.held.get_future().get();
  while (handler_.gone == 0) std::this_thread::yield();
  client.ReadAll();
}

TEST_F(ServerTest, EndsSlowHeadsForANewcomer) {
  Begin(/*connections_max=*/2);
  TcpClient held(server_->address()), slow(server_->address());
  held.Send(kPost);
  handler_.held.get_future().wait();
  slow.Send("GET / HT");
  for (int i = 0; i < 2; ++i) OnLoop([] {});
  TcpClient newcomer(server_->address());
  newcomer.Send(kGet);
  EXPECT_THAT(newcomer.Read("/one"), HasSubstr("200 OK"));
  EXPECT_EQ(slow.ReadAll(), "");
  EXPECT_EQ(handler_.gone, 0);
}

TEST_F(ServerTest, TakesSmallBodiesWhileLargeOnesAreTooMany) {
  Begin(kConnectionsMax, /*bodies_bytes_max=*/400'000);
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 80000\r\n\r\n";
  TcpClient first(server_->address()), second(server_->address()), small(server_->address());
  first.Send(head + std::string(79'999, 'x'));
  second.Send(head + std::string(79'999, 'x'));
  // Whichever came to the bound is refused, and gives its room to the other.
  std::atomic<int> refused{0};
  std::thread a([&] { refused += first.ReadAll().starts_with("HTTP/1.1 429") ? 1 : 0; });
  std::thread b([&] { refused += second.ReadAll().starts_with("HTTP/1.1 429") ? 1 : 0; });
  while (refused == 0) std::this_thread::yield();
  small.Send(kPost);
  EXPECT_EQ(handler_.held.get_future().get()->request().body, "hi");
  clock_.Advance(kBodyTime);
  a.join();
  b.join();
  EXPECT_EQ(refused, 1);
}

TEST_F(ServerTest, ReadsNoBodyOfRequestsThatAreRefusedByTheirHead) {
  Begin();
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: wrong\r\n";
  TcpClient client(server_->address());
  // Larger than what the system keeps for both ends.
  const std::string body(15 << 20, 'x');
  client.Send(head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  std::thread sends([&] { client.SendWhatGoes(body); });
  EXPECT_THAT(client.Read("no key"), StartsWith("HTTP/1.1 401"));
  // Nothing is read after this, however long the client goes on.
  const auto read = [&] {
    int64_t bytes = 0;
    OnLoop([&] { bytes = server_->read_bytes(); });
    return bytes;
  };
  constexpr auto kMost = static_cast<int64_t>(kFarewellBytesMax + 2 * kReadBytes + 1024);
  EXPECT_LE(read(), kMost);
  clock_.Advance(kFarewellTime);
  sends.join();
  EXPECT_LE(read(), kMost);
  // A client that waits for a word before the body is sent does not get it.
  TcpClient polite(server_->address());
  polite.Send(head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_THAT(polite.Read("no key"), StartsWith("HTTP/1.1 401"));
  // And in chunks.
  TcpClient chunks(server_->address());
  chunks.Send(head + "Transfer-Encoding: chunked\r\n\r\n5\r\n");
  EXPECT_THAT(chunks.Read("no key"), StartsWith("HTTP/1.1 401"));
}

TEST_F(ServerTest, SendsLargeAnswersWhole) {
  Begin();
  TcpClient client(server_->address());
  client.Send(kPost);
  const auto exchange = handler_.held.get_future().get();
  std::string body;
  while (body.size() < (8 << 20)) body += std::to_string(body.size()) + " ";
  OnLoop([&] { exchange->Reply({.body = body, .close = true}); });
  EXPECT_TRUE(client.ReadAll().ends_with("\r\n\r\n" + body));
}

TEST_F(ServerTest, EndsStreamsWhoseReaderIsTooSlow) {
  Begin();
  TcpClient client(server_->address());
  client.Send(kPost);
  const auto exchange = handler_.held.get_future().get();
  OnLoop([&] { exchange->Begin({.body = "first"}); });
  const std::string piece(64 << 10, 'x');
  // The system takes some megabytes for a reader that reads nothing.
  for (int i = 0; i < 200 && handler_.gone == 0; ++i) {
    OnLoop([&] { exchange->Write(piece); });
  }
  EXPECT_EQ(handler_.gone, 0) << "it may read all of it in a moment";
  clock_.Advance(kBehindPatience);
  OnLoop([&] { exchange->Write(piece); });
  EXPECT_EQ(handler_.gone, 1);
}

// The last events of an answer repeat its text.
TEST_F(ServerTest, MuchAtOnceDoesNotMakeAReaderSlow) {
  Begin();
  TcpClient client(server_->address());
  client.Send(kPost);
  const auto exchange = handler_.held.get_future().get();
  const std::string piece(4 << 20, 'x');
  OnLoop([&] {
    exchange->Begin({.body = "first"});
    for (int i = 0; i < 4; ++i) exchange->Write(piece);
    exchange->Write("last of all");
    exchange->End();
  });
  EXPECT_THAT(client.Read("last of all\r\n0\r\n\r\n"), HasSubstr(piece));
  EXPECT_EQ(handler_.gone, 0);
}

TEST_F(ServerTest, DrainsEachConnectionAtItsAnswersEnd) {
  Begin();
  TcpClient idle(server_->address()), client(server_->address());
  idle.Send(kGet);
  idle.Read("/one");
  client.Send(kPost);
  const auto exchange = handler_.held.get_future().get();
  OnLoop([&] { server_->Drain(); });
  EXPECT_EQ(idle.ReadAll(), "");
  OnLoop([&] { exchange->Reply({.body = "last"}); });
  const std::string all = client.ReadAll();
  EXPECT_THAT(all, HasSubstr("Connection: close"));
  EXPECT_THAT(all, HasSubstr("last"));
}

TEST_F(ServerTest, TellsClientsThatWaitToSendTheirBody) {
  Begin();
  TcpClient client(server_->address());
  client.Send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.Read("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_EQ(handler_.held.get_future().get()->request().body, "hi");
}

TEST(HttpServer, NamesWhatItCannotListenAt) {
  TestClock clock;
  Handler handler;
  door::ByteBudget budget(kBodiesBytesMax);
  for (const char* listen : {"nowhere", "1.2.3.4.5:1", "127.0.0.1:99999", "127.0.0.1:x"}) {
    const auto server = HttpServer::Create({.listen = listen, .budget = &budget}, &handler, &clock);
    ASSERT_FALSE(server.ok());
    EXPECT_THAT(std::string(server.status().message()), HasSubstr(listen));
  }
  const auto one =
      HttpServer::Create({.listen = "127.0.0.1:0", .budget = &budget}, &handler, &clock);
  ASSERT_TRUE(one.ok());
  const std::string taken = (*one)->address();
  EXPECT_FALSE(HttpServer::Create({.listen = taken, .budget = &budget}, &handler, &clock).ok());
  const auto next = HttpServer::Create({.listen = taken, .or_next_port = true, .budget = &budget},
                                       &handler, &clock);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE((*next)->address(), taken);
}

}  // namespace
}  // namespace tutti::gateway
