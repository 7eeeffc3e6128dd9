// The driver against a service whose behaviour a test chooses.
#include "client/load/driver.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "tutti/v1/generation.grpc.pb.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;

// Answers every request with its last message's text, one token. One request takes `delay`, and
// they run one at a time.
class EchoService : public v1::Inference::Service {
 public:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    {
      const MutexLock lock(&mutex_);
      most_at_once_ = std::max(most_at_once_, ++at_once_);
    }
    {
      const MutexLock lock(&turnstile_);
      std::this_thread::sleep_for(delay);
    }
    while (forever && !context->IsCancelled()) std::this_thread::sleep_for(milliseconds(1));
    v1::GenerateResponse response;
    response.set_text(request->chat().messages().rbegin()->content());
    response.add_tokens()->set_id(7);
    response.mutable_finish()->mutable_usage()->set_prompt_tokens(
        static_cast<uint32_t>(10 * request->chat().messages_size()));
    const MutexLock lock(&mutex_);
    --at_once_;
    if (refused_ < refuse) {
      ++refused_;
      context->AddTrailingMetadata("retry-after-ms", "20");
      return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full");
    }
    if (++served_ == fail_at) return grpc::Status(grpc::StatusCode::INTERNAL, "this one fails");
    writer->Write(response);
    return grpc::Status::OK;
  }

  int at_once() {
    const MutexLock lock(&mutex_);
    return at_once_;
  }
  int most_at_once() {
    const MutexLock lock(&mutex_);
    return most_at_once_;
  }

  int refused() {
    const MutexLock lock(&mutex_);
    return refused_;
  }

  // Chosen by the test before the first call.
  Duration delay{};
  bool forever = false;
  int refuse = 0;  // so many calls at first
  grpc::StatusCode refuse_as = grpc::StatusCode::RESOURCE_EXHAUSTED;
  int fail_at = 0;  // number of the call that fails, from 1; 0: none

 private:
  Mutex turnstile_;
  Mutex mutex_;
  int at_once_ ABSL_GUARDED_BY(mutex_) = 0;
  int most_at_once_ ABSL_GUARDED_BY(mutex_) = 0;
  int served_ ABSL_GUARDED_BY(mutex_) = 0;
  int refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

class DriverTest : public ::testing::Test {
 protected:
  DriverTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    client_ = *Client::Create({.address = absl::StrCat("127.0.0.1:", port)});
  }

  Duration Run(DriverOptions options) {
    const ChatOptions chat{.turns = options.turns};
    LoadDriver driver(std::move(options), client_.get(), &clock_,
                      [&](int64_t number) { return MakeChat(chat, number); });
    return driver.Run([&](Turn turn) { turns_.push_back(std::move(turn)); },
                      [](const DriverProgress&) {});
  }

  EchoService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
  SystemClock clock_;
  std::vector<Turn> turns_;
};

TEST_F(DriverTest, EveryTurnOfEveryChatIsAskedInOrder) {
  Run({.arrivals = {.concurrency = 3, .chats = 10}, .turns = 3});
  ASSERT_EQ(turns_.size(), 30u);
  std::map<int64_t, int32_t> next;
  for (const Turn& turn : turns_) {
    ASSERT_TRUE(turn.status.ok()) << turn.status;
    EXPECT_EQ(turn.turn, next[turn.chat]++);
    EXPECT_EQ(turn.ids, std::vector<int32_t>{7});
    EXPECT_EQ(turn.prompt_tokens, 10 + 20 * turn.turn);
    EXPECT_EQ(turn.repeated_tokens, turn.turn == 0 ? 0 : 20 * turn.turn - 10);
    EXPECT_TRUE(turn.right_answer.has_value());
    EXPECT_GT(turn.total, Duration::zero());
    EXPECT_LE(turn.first_token, turn.total);
  }
  EXPECT_EQ(next.size(), 10u);
  EXPECT_LE(service_.most_at_once(), 3);
}

TEST_F(DriverTest, AFailedTurnEndsItsChatOnly) {
  service_.fail_at = 1;
  Run({.arrivals = {.concurrency = 1, .chats = 3}, .turns = 2});
  ASSERT_EQ(turns_.size(), 5u);
  EXPECT_EQ(turns_[0].status.message(), "this one fails");
}

TEST_F(DriverTest, ARefusedTurnIsAskedAgainWhenTheServiceSays) {
  service_.refuse = 3;
  Run({.arrivals = {.concurrency = 1, .chats = 2},
       .turns = 2,
       .back_off = std::chrono::minutes(1)});
  ASSERT_EQ(turns_.size(), 4u);
  for (const Turn& turn : turns_) EXPECT_TRUE(turn.status.ok()) << turn.status;
  EXPECT_EQ(turns_[0].refusals, 3);
  EXPECT_GE(turns_[0].first_token, milliseconds(60)) << "times count from when it was due";
  EXPECT_EQ(turns_[1].refusals, 0);
  EXPECT_GT(turns_[1].due, turns_[0].due);
}

TEST_F(DriverTest, ARefusalIsAFailureInTheEnd) {
  service_.refuse = 100;
  Run({.arrivals = {.concurrency = 1, .chats = 1}});
  ASSERT_EQ(turns_.size(), 1u);
  EXPECT_EQ(turns_[0].refusals, 0) << "nobody asked for it";
  Run({.arrivals = {.concurrency = 1, .chats = 1}, .back_off = milliseconds(70)});
  ASSERT_EQ(turns_.size(), 2u);
  EXPECT_TRUE(absl::IsResourceExhausted(turns_[1].status)) << turns_[1].status;
  EXPECT_GE(turns_[1].refusals, 1);
  EXPECT_LE(turns_[1].refusals, 3);
}

TEST_F(DriverTest, AnInterruptEndsTurnsThatWaitToBeAskedAgain) {
  service_.refuse = 1'000'000;
  DriverOptions options{.arrivals = {.concurrency = 4, .chats = 100},
                        .back_off = std::chrono::hours(1)};
  const ChatOptions chat;
  LoadDriver driver(std::move(options), client_.get(), &clock_,
                    [&](int64_t number) { return MakeChat(chat, number); });
  std::thread interrupter([&] {
    while (service_.refused() < 9) std::this_thread::yield();
    driver.Interrupt();
  });
  driver.Run([&](Turn turn) { turns_.push_back(std::move(turn)); }, [](const DriverProgress&) {});
  interrupter.join();
  ASSERT_EQ(turns_.size(), 4u);
  for (const Turn& turn : turns_) EXPECT_FALSE(turn.status.ok());
  EXPECT_EQ(driver.progress().most_at_once, 4);
}

// All are due at once and the service takes them one at a time: the last has waited for all others,
// and its time says so.
TEST_F(DriverTest, TimesCountFromWhenARequestWasDue) {
  service_.delay = milliseconds(10);
  const std::vector<Duration> all_at_once(20, Duration::zero());
  Run({.arrivals = {.times = all_at_once, .chats = 20}});
  ASSERT_EQ(turns_.size(), 20u);
  std::sort(turns_.begin(), turns_.end(),
            [](const Turn& a, const Turn& b) { return a.total < b.total; });
  for (size_t i = 0; i < turns_.size(); ++i) {
    EXPECT_GE(turns_[i].first_token, milliseconds(10) * (i + 1));
  }
}

TEST_F(DriverTest, AnInterruptCancelsWhatIsUnderWay) {
  service_.forever = true;
  DriverOptions options{.arrivals = {.concurrency = 4, .chats = 100}, .turns = 5};
  const ChatOptions chat;
  LoadDriver driver(std::move(options), client_.get(), &clock_,
                    [&](int64_t number) { return MakeChat(chat, number); });
  std::thread interrupter([&] {
    while (service_.at_once() != 4) std::this_thread::yield();
    driver.Interrupt();
  });
  driver.Run([&](Turn turn) { turns_.push_back(std::move(turn)); }, [](const DriverProgress&) {});
  interrupter.join();
  ASSERT_EQ(turns_.size(), 4u);
  for (const Turn& turn : turns_) EXPECT_EQ(turn.status.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace tutti::client
