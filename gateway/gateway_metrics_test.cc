#include "gateway/gateway_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

namespace tutti::gateway {
namespace {

using ::testing::HasSubstr;

class FakeExchange : public Exchange {
 public:
  FakeExchange(std::string method, std::string path) {
    request_.method = std::move(method);
    request_.path = std::move(path);
  }
  HttpRequest& request() override { return request_; }
  void Reply(HttpResponse) override {}
  void Begin(HttpResponse) override {}
  void Write(std::string) override {}
  void End() override {}
  void OnGone(std::function<void()> gone) override { gone_ = std::move(gone); }
  std::function<void()> gone_;

 private:
  HttpRequest request_;
};

class GatewayMetricsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Exchange> Asked(const std::string& method, const std::string& path) {
    return counted_.Count(std::make_shared<FakeExchange>(method, path));
  }
  std::string Written() const {
    metrics::Exposition text;
    counted_.Write({.calls = 2, .reachable = true}, &text);
    return text.Release();
  }

  ManualClock clock_;
  GatewayMetrics counted_{{"/v1/models", "/v1/completions"}, &clock_};
};

TEST_F(GatewayMetricsTest, CountAnswersByPathAndStatus) {
  Asked("GET", "/v1/models/a")->Reply({});
  Asked("GET", "/v1/models")->Reply({});
  // Whatever strangers ask for is one label.
  for (const char* path : {"/a", "/b", "/v1/modelsx", "/v1/models\"}"}) {
    Asked("GET", path)->Reply({.status = 404});
  }
  const std::string text = Written();
  EXPECT_THAT(text,
              HasSubstr("tutti_gateway_requests_total{path=\"/v1/models\",status=\"200\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("tutti_gateway_requests_total{path=\"other\",status=\"404\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("tutti_gateway_calls 2\n"));
  EXPECT_THAT(text, HasSubstr("tutti_gateway_request_seconds_count 0\n"));
}

TEST_F(GatewayMetricsTest, TimeStreams) {
  const auto exchange = Asked("POST", "/v1/completions");
  clock_.Advance(std::chrono::milliseconds(70));
  exchange->Begin({.body = "1234"});
  clock_.Advance(std::chrono::milliseconds(20));
  exchange->Write("56");
  exchange->End();
  const std::string text = Written();
  EXPECT_THAT(text, HasSubstr("tutti_gateway_time_to_first_event_seconds_sum 0.07\n"));
  EXPECT_THAT(text, HasSubstr("tutti_gateway_event_gap_seconds_sum 0.02\n"));
  EXPECT_THAT(text, HasSubstr("tutti_gateway_request_seconds_sum 0.09\n"));
  EXPECT_THAT(text, HasSubstr("tutti_gateway_streamed_bytes_total 6\n"));
}

TEST_F(GatewayMetricsTest, CountClientsThatLeave) {
  const auto plain = std::make_shared<FakeExchange>("POST", "/v1/completions");
  const auto exchange = counted_.Count(plain);
  bool told = false;
  exchange->OnGone([&told] { told = true; });
  plain->gone_();
  EXPECT_TRUE(told);
  EXPECT_THAT(Written(), HasSubstr("tutti_gateway_clients_gone_total 1\n"));
}

}  // namespace
}  // namespace tutti::gateway
