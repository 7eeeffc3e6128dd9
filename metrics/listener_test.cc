// The port over real connections.
#include "metrics/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/tcp_client_testing.h"
#include "metrics/limits.h"

namespace tutti::metrics {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ListenerTest : public ::testing::Test {
 protected:
  std::string Ask(const std::string& bytes) const {
    TcpClient client(listener_->address());
    client.SendWhatGoes(bytes);
    return client.ReadAll();
  }

  const std::unique_ptr<Listener> listener_ =
      *Listener::Start("127.0.0.1:0", [] { return std::string("a 1\n"); });
};

TEST_F(ListenerTest, AnswersMetricsAndHealthAndEndsTheConnection) {
  const std::string metrics = Ask("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(metrics, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(metrics, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(metrics, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(metrics, EndsWith("\r\n\r\na 1\n"));
  EXPECT_THAT(Ask("GET /healthz HTTP/1.0\r\n\r\n"), EndsWith("\r\n\r\nok\n"));
  const std::string head = Ask("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST_F(ListenerTest, RefusesEverythingElse) {
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask("\x16\x03\x01 nothing\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Ask("GET /metrics HTTP/1.1\r\nX: " + std::string(kHeadBytesMax, 'x') + "\r\n\r\n"),
              testing::AnyOf(StartsWith("HTTP/1.1 400 "), ""));
}

// A newcomer is answered, and the oldest makes way.
TEST_F(ListenerTest, AnswersBesideConnectionsThatSayNothing) {
  std::vector<std::unique_ptr<TcpClient>> idle;
  for (size_t i = 0; i < 3 * kConnectionsMax; ++i) {
    idle.push_back(std::make_unique<TcpClient>(listener_->address()));
    idle.back()->SendWhatGoes("GET /met");
  }
  EXPECT_THAT(Ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), EndsWith("a 1\n"));
  EXPECT_EQ(idle.front()->ReadAll(), "");
}

TEST(Listener, SaysWhatCannotBe) {
  const auto scrape = [] { return std::string(); };
  EXPECT_THAT(std::string(Listener::Start("9100", scrape).status().message()),
              HasSubstr("--metrics 9100: write an address and a port"));
  EXPECT_THAT(std::string(Listener::Start("example.org:1", scrape).status().message()),
              HasSubstr("no numeric address"));
  const auto first = *Listener::Start("127.0.0.1:0", scrape);
  EXPECT_THAT(std::string(Listener::Start(first->address(), scrape).status().message()),
              HasSubstr("cannot listen at 127.0.0.1:"));
}

}  // namespace
}  // namespace tutti::metrics
