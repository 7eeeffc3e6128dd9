// The places of a port's connections, and the bytes that they hold: whose they are.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gateway/http/server.h"
#include "gateway/http/server_testing.h"

namespace tutti::gateway {
namespace {

using ::testing::HasSubstr;

// The listener of clients that are no clients, from one address.
class ManyClients {
 public:
  ManyClients(const std::string& address, const char* from, size_t count) {
    for (size_t i = 0; i < count; ++i) all.push_back(std::make_unique<TcpClient>(address, from));
  }
  std::vector<std::unique_ptr<TcpClient>> all;
};

// An address has three quarters of the places; what it has more, it takes from itself.
TEST_F(ServerTest, OneAddressLeavesPlacesToOthers) {
  Begin(/*connections_max=*/8);
  ManyClients greedy(server_->address(), "127.0.0.2", 40);
  for (int i = 0; i < 2; ++i) {
    TcpClient modest(server_->address(), "127.0.0.3");
    modest.Send(kGet);
    EXPECT_THAT(modest.Read("/one"), HasSubstr("200 OK"));
  }
  // And another of the greedy address is served as well, in the place of one that says nothing.
  TcpClient also(server_->address(), "127.0.0.2");
  also.Send(kGet);
  EXPECT_THAT(also.Read("/one"), HasSubstr("200 OK"));
  EXPECT_GE(server_->evicted(), 1);
}

TEST_F(ServerTest, WhoDoesNotReadMakesWayWhateverItIsAt) {
  Begin(/*connections_max=*/4);
  // Answers that lie unread, of clients which have more to ask.
  ManyClients greedy(server_->address(), "127.0.0.2", 3);
  for (const auto& client : greedy.all) {
    client->Send(std::string(kPost) + kGet);
    const auto exchange = handler_.held.get_future().get();
    handler_.held = {};
    OnLoop([&] { exchange->Reply({.body = std::string(16 << 20, 'x')}); });
  }
  clock_.Advance(kUnreadPatience);
  for (int i = 0; i < 3; ++i) {
    TcpClient modest(server_->address(), "127.0.0.2");
    modest.Send(kGet);
    EXPECT_THAT(modest.Read("/one"), HasSubstr("200 OK"));
    clock_.Advance(kUnreadPatience);
  }
}

// Bytes of one that does not read are its own.
TEST_F(ServerTest, AnswersThatLieUnreadAreTheirOwners) {
  Begin(kConnectionsMax, /*bodies_bytes_max=*/10 << 20);
  TcpClient first(server_->address(), "127.0.0.2"), second(server_->address(), "127.0.0.2");
  TcpClient modest(server_->address(), "127.0.0.3");
  const auto reply = [&](TcpClient* client, size_t bytes) {
    client->Send(kPost);
    const auto exchange = handler_.held.get_future().get();
    handler_.held = {};
    OnLoop([&] { exchange->Reply({.body = std::string(bytes, 'x')}); });
  };
  reply(&first, 4 << 20);
  EXPECT_GE(budget_->held(), 3 << 20);
  reply(&second, 4 << 20);
  EXPECT_EQ(handler_.gone, 0);  // it had its answer, as far as the handler knows
  reply(&modest, 2 << 20);
  EXPECT_THAT(modest.Read(std::string(1 << 20, 'x')), HasSubstr("200 OK"));
  first.Close();
  second.Close();
  modest.Close();
  while (budget_->held() > 0) std::this_thread::yield();
}

}  // namespace
}  // namespace tutti::gateway
