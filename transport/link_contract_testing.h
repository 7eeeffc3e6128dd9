// Support for tests of the promises of link.h, for every kind of link: TEST_P(LinkContractTest,
// ...), instantiated for all kinds in link_contract_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "transport/grpc/grpc_link.h"
#include "transport/inproc_link.h"
#include "transport/link_testing.h"

namespace tutti::transport {

// One listener and one dialer of some kind.
class Network {
 public:
  virtual ~Network() = default;
  virtual std::string Listen(AcceptCallback accept) = 0;  // returns the address to dial
  virtual void StopListening() = 0;
  virtual Dialer* dialer() = 0;
  virtual std::string nowhere() = 0;  // an address without a listener
};

class TestInprocNetwork : public Network {
 public:
  std::string Listen(AcceptCallback accept) override {
    EXPECT_TRUE(network_.Listen("listener", std::move(accept)).ok());
    return "listener";
  }
  void StopListening() override { network_.StopListening("listener"); }
  Dialer* dialer() override { return dialer_.get(); }
  std::string nowhere() override { return "nobody"; }

 private:
  InprocNetwork network_;
  std::unique_ptr<Dialer> dialer_ = network_.MakeDialer();
};

class TestGrpcNetwork : public Network {
 public:
  explicit TestGrpcNetwork(std::string address)
      : address_(std::move(address)), dialer_(*GrpcDialer::Create()) {}
  std::string Listen(AcceptCallback accept) override {
    auto server = GrpcPeerServer::Start({address_, {}}, std::move(accept));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    return server_->address();
  }
  void StopListening() override { server_->Stop(); }
  Dialer* dialer() override { return dialer_.get(); }
  std::string nowhere() override { return FreshUnixAddress(); }

 private:
  const std::string address_;
  std::unique_ptr<GrpcPeerServer> server_;
  std::unique_ptr<GrpcDialer> dialer_;
};

// Both ends of one link, and their inboxes.
struct Connection {
  Inbox dialed, accepted;
  std::unique_ptr<Link> link, accepted_link;

  // The ends and their inboxes by side, for tests that do the same from both sides.
  Link* end(bool is_dialer) { return (is_dialer ? link : accepted_link).get(); }
  Inbox& inbox(bool is_dialer) { return is_dialer ? dialed : accepted; }
};

class LinkContractTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "inproc") network_ = std::make_unique<TestInprocNetwork>();
    if (GetParam() == "tcp") network_ = std::make_unique<TestGrpcNetwork>("127.0.0.1:0");
    if (GetParam() == "unix") network_ = std::make_unique<TestGrpcNetwork>(FreshUnixAddress());
    target_ = network_->Listen([this](std::unique_ptr<Link> link) {
      const MutexLock lock(&mutex_);
      auto handler = refuse_ ? nullptr : dialing_->accepted.MakeHandler();
      dialing_->accepted_link = refuse_ ? nullptr : std::move(link);
      changed_.NotifyAll();
      return handler;
    });
  }

  void TearDown() override {
    for (const auto& connection : connections_) {
      connection->dialed.Unblock();
      connection->accepted.Unblock();
    }
    network_.reset();
    for (const auto& connection : connections_) {
      for (const bool is_dialer : {true, false}) {
        EXPECT_TRUE(connection->inbox(is_dialer).WaitForHandlerGone());
        EXPECT_EQ(connection->inbox(is_dialer).violations, 0);
      }
    }
  }

  Connection& Dial() {
    connections_.push_back(std::make_unique<Connection>());
    Connection& connection = *connections_.back();
    {
      const MutexLock lock(&mutex_);
      dialing_ = &connection;
    }
    connection.link = network_->dialer()->Dial(target_, connection.dialed.MakeHandler());
    return connection;
  }

  // Dials, and waits until both ends are there.
  Connection& Connect() {
    Connection& connection = Dial();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(&mutex_);
    while (connection.accepted_link == nullptr && changed_.WaitUntil(&mutex_, deadline)) continue;
    EXPECT_NE(connection.accepted_link, nullptr);
    return connection;
  }

  // Outlive the network, whose threads use them.
  std::vector<std::unique_ptr<Connection>> connections_;
  Mutex mutex_;
  ConditionVariable changed_;
  Connection* dialing_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Network> network_;
  std::string target_;
};

}  // namespace tutti::transport
