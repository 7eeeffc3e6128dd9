// An HTTP server over real connections, under a clock of the test's.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/tcp_client_testing.h"
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
