// The page's paths without a network: a server that runs what is posted when the test says so.
#include "gateway/service/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <utility>

#include "absl/strings/match.h"
#include "base/mutex.h"
#include "gateway/limits.h"
#include "gateway/page_files.h"

namespace tutti::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FakeServer : public HttpServer {
 public:
  const std::string& address() const override { return address_; }
  void Run() override {}
  void Post(std::function<void()> job) override {
    const MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
    changed_.NotifyAll();
  }
  void Drain() override {}
  int64_t exchanges() const override { return 0; }
  int64_t read_bytes() const override { return 0; }
  int64_t evicted() const override { return 0; }
  int64_t held_bytes() const override { return 0; }
  void Stop() override {}
  // The next job, when there is one.
  void RunOne() {
    std::function<void()> job;
    {
      const MutexLock lock(&mutex_);
      while (jobs_.empty()) changed_.Wait(&mutex_);
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }

 private:
  const std::string address_ = "127.0.0.1:0";
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
};

class FakeExchange : public Exchange {
 public:
  HttpRequest& request() override { return request_; }
  void Reply(HttpResponse response) override { answer = std::move(response); }
  void Begin(HttpResponse response) override { answer = std::move(response); }
  void Write(std::string piece) override { pieces.push_back(std::move(piece)); }
  void End() override { ended = true; }
  void OnGone(std::function<void()> called) override { gone = std::move(called); }
  std::string Field(const std::string& name) const {
    for (const auto& [key, value] : answer->fields) {
      if (key == name) return value;
    }
    return "";
  }
  OrderedJson Json() const { return OrderedJson::parse(answer->body, nullptr, false); }

  HttpRequest request_;
  std::optional<HttpResponse> answer;
  std::vector<std::string> pieces;
  std::function<void()> gone;
  bool ended = false;
};

class ConsoleTest : public ::testing::Test {
 protected:
  ConsoleTest() : console_(Asks(), &clock_) { console_.set_server(&server_); }
  ~ConsoleTest() override { console_.Stop(); }

  std::vector<StatusFeed::Ask> Asks() {
    const auto first = [this](client::CancelToken*) -> absl::StatusOr<v1::GetStatusResponse> {
      return absl::UnavailableError("c0 stands by");
    };
    const auto second = [this](client::CancelToken*) -> absl::StatusOr<v1::GetStatusResponse> {
      ++asked_;
      if (lost_) return absl::UnavailableError("c1 is gone");
      v1::GetStatusResponse status;
      status.set_model("demo");
      status.set_uptime_seconds(5);
      return status;
    };
    return {first, second};
  }
  std::shared_ptr<FakeExchange> Ask(const std::string& path, const std::string& method = "GET",
                                    HttpFields fields = {{"host", "localhost"}}) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->request_ = {.peer = {.account = "127.0.0.1", .is_local = true},
                          .method = method,
                          .path = path,
                          .fields = std::move(fields)};
    Caller caller{.exchange = exchange};
    handled_ = console_.Handle(rules_, caller);
    return exchange;
  }

  const SystemClock clock_;
  DoorRules rules_;
  std::atomic<int> asked_{0};
  std::atomic<bool> lost_{false};
  bool handled_ = false;
  FakeServer server_;
  Console console_;
};

TEST_F(ConsoleTest, ServesThePageUnderAStrictPolicy) {
  for (const PageFile& file : PageFiles()) {
    const auto got = Ask(std::string(file.path));
    ASSERT_TRUE(handled_ && got->answer.has_value()) << file.path;
    EXPECT_EQ(got->answer->status, 200);
    EXPECT_EQ(got->answer->body, file.body);
    EXPECT_EQ(got->answer->content_type, file.content_type);
    const std::string policy = got->Field("Content-Security-Policy");
    EXPECT_THAT(policy, StartsWith("default-src 'none'; script-src 'self'; style-src 'self'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(got->Field("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(got->Field("X-Frame-Options"), "DENY");
    // Nothing of others, nothing inline.
    for (const char* wrong : {"https://", "innerHTML", "insertAdjacent", "<script>", " style=\""}) {
      EXPECT_FALSE(absl::StrContains(std::string(file.body), wrong)) << file.path << ": " << wrong;
    }
  }
  EXPECT_THAT(Ask("/")->answer->body, StartsWith("<!doctype html>"));
}

TEST_F(ConsoleTest, SendsAFileOnce) {
  const std::string tag = Ask("/")->Field("ETag");
  const auto again = Ask("/", "GET", {{"host", "localhost"}, {"if-none-match", tag}});
  EXPECT_EQ(again->answer->status, 304);
  EXPECT_EQ(again->answer->body, "");
}

TEST_F(ConsoleTest, AnswersItsPathsAndNoOthers) {
  Ask("/v1/models");
  EXPECT_FALSE(handled_);
  Ask("/page/other.js");
  EXPECT_FALSE(handled_);
  Ask("/tutti/other");
  EXPECT_FALSE(handled_);
  const auto wrong = Ask("/", "POST");
  EXPECT_EQ(wrong->answer->status, 405);
  EXPECT_EQ(wrong->Field("Allow"), "GET, HEAD");
  EXPECT_EQ(Ask("/tutti/live", "DELETE")->answer->status, 405);
  EXPECT_EQ(Ask("/", "HEAD")->answer->status, 200);
  EXPECT_EQ(Ask("/tutti/live", "HEAD")->answer->status, 200);
}

TEST_F(ConsoleTest, ShowsTheStateToOperatorsOnly) {
  EXPECT_EQ(Ask("/tutti/requests", "GET", {{"host", "evil.example"}})->answer->status, 403);
  EXPECT_EQ(Ask("/", "GET", {{"host", "evil.example"}})->answer->status, 403);
  // printf %s secret-1 | sha256sum; the same of secret-3
  rules_.keys = *ApiKeys::Parse(
      "acme f7e7c36e458e80e6b6a2c67d0a9ec09bd718dadd7bfa8d6bf6e7ad526e46c2f7\n"
      "ops 2c7d3470d617514ede9f8b07e2912811351e6efe42cdc07b661a790b6659d486 operator\n",
      "keys");
  EXPECT_EQ(Ask("/", "GET", {{"host", "a.example"}})->answer->status, 200);
  for (const char* path : {"/tutti/status", "/tutti/requests", "/tutti/live", "/tutti/other"}) {
    EXPECT_EQ(Ask(path)->answer->status, 401) << path;
    EXPECT_EQ(Ask(path, "GET", {{"authorization", "Bearer secret-1"}})->answer->status, 403);
  }
  const auto shown = Ask("/tutti/requests", "GET", {{"authorization", "Bearer secret-3"}});
  EXPECT_EQ(shown->answer->status, 200);
  EXPECT_EQ(shown->Field("Cache-Control"), "no-store");
}

TEST_F(ConsoleTest, AsksForTheStateOnceForMany) {
  std::vector<std::shared_ptr<FakeExchange>> all;
  for (int i = 0; i < 100; ++i) all.push_back(Ask("/tutti/status"));
  for (int i = 0; i < 100; ++i) server_.RunOne();
  for (const auto& one : all) {
    ASSERT_EQ(one->answer->status, 200);
    EXPECT_EQ(one->Json()["model"], "demo");
    // Every field, as `tutti status --json` has it.
    EXPECT_EQ(one->Json()["requests"].is_null(), true);
    EXPECT_EQ(one->Json()["why_not_serving"], "");
  }
  // More only where they took longer than a look is good for.
  EXPECT_LE(asked_, 10);
}

TEST_F(ConsoleTest, SaysWhyThereIsNoState) {
  lost_ = true;
  const auto got = Ask("/tutti/status");
  server_.RunOne();
  EXPECT_EQ(got->answer->status, 503);
  EXPECT_THAT(got->answer->body, HasSubstr("c1 is gone"));
}

TEST_F(ConsoleTest, TellsWatchersEachSecond) {
  const uint64_t number = console_.traffic()->Begin({.name = "mine", .kind = "chat"});
  const auto watcher = Ask("/tutti/live");
  ASSERT_EQ(watcher->answer->status, 200);
  EXPECT_THAT(watcher->answer->content_type, StartsWith("text/event-stream"));
  const auto event = [](std::string_view text) {
    EXPECT_THAT(text, StartsWith("data: "));
    return OrderedJson::parse(text.substr(6), nullptr, false);
  };
  const OrderedJson first = event(watcher->answer->body);
  EXPECT_EQ(first["requests"][0]["id"], "mine");
  EXPECT_FALSE(first.contains("status"));
  server_.RunOne();
  ASSERT_EQ(watcher->pieces.size(), 1);
  EXPECT_EQ(event(watcher->pieces[0])["status"]["model"], "demo");
  EXPECT_EQ(event(watcher->pieces[0])["watchers"], 1);
  console_.traffic()->OnEnd(number, Traffic::End::kFinished);
  lost_ = true;
  // The next look may still be the last one's.
  while (!event(watcher->pieces.back()).contains("status_error")) server_.RunOne();
  EXPECT_EQ(event(watcher->pieces.back())["requests"].size(), 0);
  watcher->gone();
  console_.EndAll();
  EXPECT_FALSE(watcher->ended);
}

TEST_F(ConsoleTest, BoundsItsWatchersAndLetsThemGo) {
  std::vector<std::shared_ptr<FakeExchange>> all;
  for (size_t i = 0; i < kWatchersMax; ++i) all.push_back(Ask("/tutti/live"));
  EXPECT_EQ(all.back()->answer->status, 200);
  EXPECT_EQ(Ask("/tutti/live")->answer->status, 503);
  all.front()->gone();
  EXPECT_EQ(Ask("/tutti/live")->answer->status, 200);
  console_.EndAll();
  EXPECT_TRUE(all.back()->ended);
  EXPECT_EQ(Ask("/tutti/live")->answer->status, 503);
}

}  // namespace
}  // namespace tutti::gateway
