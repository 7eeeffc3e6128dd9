// An HTTP server over real connections, under a clock of the test's.
#pragma once

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "door/byte_budget.h"
#include "gateway/http/server.h"

namespace tutti::gateway {

class TestClock : public Clock {
 public:
  Instant Now() const override { return Instant(Duration(now_.load())); }
  void Advance(Duration step) { now_ += step.count(); }

 private:
  std::atomic<int64_t> now_{1};
};

// Answers GET with the path, and keeps the exchanges of POST for the test.
class Handler : public HttpHandler {
 public:
  void Handle(std::shared_ptr<Exchange> exchange) override {
    if (exchange->request().method == "GET") {
      exchange->Reply({.content_type = "text/plain", .body = exchange->request().path});
      return;
    }
    exchange->OnGone([this] { ++gone; });
    held.set_value(std::move(exchange));
  }
  Verdict Judge(const HttpRequest& head) override {
    EXPECT_EQ(head.body, "");
    const std::string owner(head.Field("authorization"));
    if (owner != "wrong") return {.refusal = {}, .owner = owner};
    return {.refusal = HttpResponse{.status = 401, .body = "no key"}, .owner = {}};
  }
  std::promise<std::shared_ptr<Exchange>> held;
  std::atomic<int> gone{0};
};

class Client {
 public:
  // `from`: an address of this machine.
  explicit Client(const std::string& address, const char* from = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    to.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { Close(); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Sends until the other end takes no more.
  void SendWhatGoes(const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  // Reads until what came ends with `end`, or the connection does.
  std::string Read(const std::string& end) {
    std::string all;
    char piece[4096];
    while (all.size() < end.size() || !all.ends_with(end) || end.empty()) {
      const ssize_t n = recv(fd_, piece, sizeof(piece), 0);
      if (n <= 0) return all;
      all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }
  std::string ReadAll() { return Read(""); }

 private:
  int fd_;
};

class ServerTest : public ::testing::Test {
 protected:
  void Begin(int64_t connections_max = kConnectionsMax,
             int64_t bodies_bytes_max = kBodiesBytesMax) {
    budget_.emplace(bodies_bytes_max);
    auto server = HttpServer::Create(
        {.listen = "127.0.0.1:0", .connections_max = connections_max, .budget = &*budget_},
        &handler_, &clock_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    loop_ = std::thread([this] { server_->Run(); });
  }
  ~ServerTest() override {
    if (!loop_.joinable()) return;
    server_->Post([this] { server_->Stop(); });
    loop_.join();
  }
  // Runs it on the loop, and waits for it.
  void OnLoop(const std::function<void()>& job) {
    std::promise<void> done;
    server_->Post([&] {
      job();
      done.set_value();
    });
    done.get_future().wait();
  }

  TestClock clock_;
  Handler handler_;
  std::optional<door::ByteBudget> budget_;
  std::unique_ptr<HttpServer> server_;
  std::thread loop_;
};

inline constexpr char kGet[] = "GET /one HTTP/1.1\r\nHost: localhost\r\n\r\n";
inline constexpr char kPost[] =
    "POST /two HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi";

}  // namespace tutti::gateway
