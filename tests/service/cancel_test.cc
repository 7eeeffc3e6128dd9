// A storm of clients that leave at random moments, through the real service: afterwards nothing of
// them is left. TUTTI_CANCELS=n sets how many (the full count of the promise is 10,000),
// TUTTI_CANCEL_SEED=n replays.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/random.h"
#include "client/client.h"
#include "tests/support/in_process_cluster.h"

namespace tutti::tests {
namespace {

constexpr int64_t kCancelsDefault = 600;
constexpr int64_t kAtOnce = 50;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// A client that leaves: at once, after so many messages, when told to, or by its deadline.
class Leaver : public client::GenerateObserver {
 public:
  Leaver(Random* random, client::Client* client) : leave_after_(random->Between(-2, 6)) {
    v1::GenerateRequest request;
    request.set_text("What is 12 + 30? " +
                     std::string(static_cast<size_t>(random->Between(0, 200)), 'x'));
    request.set_n(static_cast<uint32_t>(random->Between(1, 3)));
    request.mutable_sampling()->set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(2);
    // Some end by themselves at about the moment their client leaves.
    if (random->Chance(0.3)) {
      request.mutable_sampling()->set_max_tokens(static_cast<uint32_t>(random->Between(1, 8)));
    }
    if (random->Chance(0.1)) request.mutable_sampling()->add_stop("e");
    std::optional<Duration> timeout;
    if (random->Chance(0.1)) timeout = std::chrono::microseconds(random->Between(1, 20000));
    call_ = client->Start(std::move(request), timeout, this);
    started_ = true;
    started_.notify_all();
    if (leave_after_ == -2) Leave();
  }
  void Leave() { call_->Cancel(); }
  // Waits until gRPC is done with the call.
  absl::StatusCode End() { return end_.get_future().get().code(); }

  void OnMessage(const v1::GenerateResponse&) override {
    started_.wait(false);
    if (++messages_ == leave_after_) Leave();
  }
  void OnEnd(absl::Status status) override { end_.set_value(std::move(status)); }

 private:
  const int64_t leave_after_;  // -1: when told to
  int64_t messages_ = 0;
  std::atomic<bool> started_{false};  // call_ is set
  std::promise<absl::Status> end_;
  std::unique_ptr<client::GenerateCall> call_;
};

// The number of these that this process has.
int64_t Count(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

class CancelTest : public ::testing::Test {
 protected:
  // So many clients at once; how many of them were cancelled.
  int64_t Storm(int64_t clients, Random* random) {
    std::vector<std::unique_ptr<Leaver>> leavers;
    for (int64_t i = 0; i < clients; ++i) {
      leavers.push_back(std::make_unique<Leaver>(random, client_.get()));
    }
    // A client that has not left by then is told to, at moments spread over some engine steps.
    for (const auto& leaver : leavers) {
      std::this_thread::sleep_for(std::chrono::microseconds(random->Between(0, 1000)));
      leaver->Leave();
    }
    int64_t cancelled = 0;
    for (const auto& leaver : leavers) {
      if (leaver->End() == absl::StatusCode::kCancelled) ++cancelled;
    }
    return cancelled;
  }

  InProcessCluster cluster_{
      {.model_dir = std::string(std::getenv("TUTTI_SOURCE_DIR")) + "/models/demo",
       .layers = {2, 2},
       // A busy machine is no lost worker.
       .engine = {.lease = std::chrono::minutes(1)}}};
  std::unique_ptr<client::Client> client_ =
      *client::Client::Create({.address = cluster_.address()});
};

TEST_F(CancelTest, NothingIsLeftOfClientsThatLeave) {
  const int64_t cancels = FromEnvironment("TUTTI_CANCELS", kCancelsDefault);
  const auto seed = static_cast<uint64_t>(FromEnvironment("TUTTI_CANCEL_SEED", 1));
  SCOPED_TRACE(::testing::Message() << "TUTTI_CANCEL_SEED=" << seed);
  Random random(seed);
  Storm(kAtOnce, &random);  // connections and gRPC's threads are there now
  cluster_.WaitIdle();
  const int64_t threads = Count("/proc/self/task");
  const int64_t descriptors = Count("/proc/self/fd");

  int64_t cancelled = 0;
  for (int64_t done = 0; done < cancels; done += kAtOnce) cancelled += Storm(kAtOnce, &random);
  EXPECT_GT(cancelled, cancels / 2);
  cluster_.WaitIdle();

  const v1::GetStatusResponse status = cluster_.Status();
  EXPECT_TRUE(status.serving());
  EXPECT_EQ(static_cast<uint32_t>(status.pipelines(0).epoch()), 1u) << "none has ended";
  EXPECT_EQ(status.pipelines(0).blocks_in_use(), 0);
  const v1::RequestCounters& requests = status.requests();
  EXPECT_EQ(requests.accepted(), requests.finished() + requests.cancelled() + requests.failed() +
                                     requests.deadline_exceeded());
  // gRPC keeps a few threads in reserve, as many as it likes; a leak would be hundreds.
  EXPECT_LE(Count("/proc/self/task"), threads + 4);
  EXPECT_LE(Count("/proc/self/fd"), descriptors + 1);
}

}  // namespace
}  // namespace tutti::tests
