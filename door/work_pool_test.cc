#include "door/work_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "door/limits.h"

namespace tutti::door {
namespace {

constexpr int64_t kLarge = kSmallRequestBytes + 1;

// A pool whose work is held until it is let go, and the order in which it was then done.
class HeldPool {
 public:
  explicit HeldPool(WorkPool::Threads threads = {.any = 1}, size_t capacity = 1000)
      : pool_(std::in_place, threads, capacity) {}

  // Keeps the threads that take large work busy.
  void Hold(int threads) {
    for (int i = 0; i < threads; ++i) {
      std::promise<void> begun;
      ASSERT_TRUE(pool_->Submit({.client = "holder", .bytes = kLarge, .run = [this, &begun] {
                                   begun.set_value();
                                   released_.wait();
                                 }}));
      begun.get_future().wait();
    }
  }
  bool Add(const std::string& client, int64_t bytes, const std::string& name) {
    return pool_->Submit({.client = client, .bytes = bytes, .run = [this, name] {
                            const MutexLock lock(&mutex_);
                            done_.push_back(name);
                          }});
  }
  WorkPool* pool() { return &*pool_; }
  // Lets go, ends the pool, and says what was done in which order.
  std::vector<std::string> Finish() {
    release_.set_value();
    pool_.reset();
    const MutexLock lock(&mutex_);
    return done_;
  }

 private:
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  Mutex mutex_;
  std::vector<std::string> done_ ABSL_GUARDED_BY(mutex_);
  std::optional<WorkPool> pool_;
};

TEST(WorkPoolTest, ClientsTakeTurns) {
  HeldPool pool;
  pool.Hold(1);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.Add("greedy", kLarge, "greedy"));
  ASSERT_TRUE(pool.Add("modest", kLarge, "modest"));
  const std::vector<std::string> done = pool.Finish();
  ASSERT_EQ(done.size(), 101u);
  EXPECT_TRUE(done[0] == "modest" || done[1] == "modest");
}

TEST(WorkPoolTest, TurnsAreByWorkAndNotByNumber) {
  HeldPool pool;
  pool.Hold(1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pool.Add("greedy", 10 * kLarge, "greedy"));
    ASSERT_TRUE(pool.Add("modest", kLarge, "modest"));
  }
  const std::vector<std::string> done = pool.Finish();
  // By the second turn of the greedy client the modest one has had about as much.
  const std::vector<std::string> first(done.begin(), done.begin() + 10);
  EXPECT_LE(std::count(first.begin(), first.end(), "greedy"), 2);
}

// Connections are free to make: one for each request, and more come before the last is served.
TEST(WorkPoolTest, NewClientsWithoutEndDoNotStarveOneThatIsKnown) {
  constexpr int kStrangers = 1000;
  HeldPool pool({.any = 1}, 2 * kStrangers);
  int strangers = 0, served_before = -1;
  std::promise<void> over;
  std::function<void()> stranger = [&] {
    if (++strangers == kStrangers) over.set_value();
    if (strangers >= kStrangers) return;
    ASSERT_TRUE(pool.pool()->Submit(
        {.client = absl::StrCat("stranger ", strangers), .bytes = kLarge, .run = stranger}));
  };
  ASSERT_TRUE(pool.pool()->Submit(
      {.client = "known", .bytes = kLarge, .run = [&] {
         // Two at a time, so that one always waits.
         stranger();
         stranger();
         ASSERT_TRUE(pool.pool()->Submit(
             {.client = "known", .bytes = kLarge, .run = [&] { served_before = strangers; }}));
       }}));
  over.get_future().wait();
  pool.Finish();
  EXPECT_GE(served_before, 0);
  EXPECT_LT(served_before, 10);
}

TEST(WorkPoolTest, SmallWorkDoesNotWaitForLarge) {
  HeldPool pool({.any = 2, .small = 1});
  pool.Hold(2);
  ASSERT_TRUE(pool.Add("greedy", kLarge, "large"));
  std::promise<void> small;
  ASSERT_TRUE(pool.pool()->Submit(
      {.client = "modest", .bytes = kSmallRequestBytes, .run = [&small] { small.set_value(); }}));
  small.get_future().wait();  // while both threads that take large work are held
  EXPECT_EQ(pool.Finish(), std::vector<std::string>{"large"});
}

constexpr WorkPool::Threads kDivided = {.small = 1, .medium = 1, .large = 1};

// Runs a closure in the pool, and waits for its end.
int NicenessOf(WorkPool* pool, int64_t bytes) {
  std::promise<int> found;
  EXPECT_TRUE(pool->Submit({.client = "a:1", .bytes = bytes, .run = [&found] {
                              found.set_value(
                                  getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())));
                            }}));
  return found.get_future().get();
}

TEST(WorkPoolTest, LargeWorkRunsBelowAllOthers) {
  WorkPool pool(kDivided, 10);
  const int usual = getpriority(PRIO_PROCESS, 0);
  EXPECT_EQ(NicenessOf(&pool, kSmallRequestBytes), usual);
  EXPECT_EQ(NicenessOf(&pool, kMediumRequestBytes), usual);
  EXPECT_EQ(NicenessOf(&pool, kMediumRequestBytes + 1), std::min(19, usual + kLargeNiceSteps));
}

// Until `freed`. Returns when it is held.
void HoldLargeThread(WorkPool* pool, const std::shared_future<void>& freed) {
  std::promise<void> begun;
  ASSERT_TRUE(pool->Submit({.client = "a:1", .bytes = 4 << 20, .run = [&begun, freed] {
                              begun.set_value();
                              freed.wait();
                            }}));
  begun.get_future().wait();
}

// Of one client, too, and of however much large work.
TEST(WorkPoolTest, MediumWorkNeverWaitsForLarge) {
  WorkPool pool(kDivided, 100);
  std::promise<void> free;
  const std::shared_future<void> freed = free.get_future().share();
  HoldLargeThread(&pool, freed);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(pool.Submit({.client = "a:1", .bytes = 4 << 20, .run = [freed] { freed.wait(); }}));
  }
  for (const int64_t bytes : {kSmallRequestBytes, kMediumRequestBytes}) NicenessOf(&pool, bytes);
  free.set_value();
}

// Its places are counted beside the others.
TEST(WorkPoolTest, LargeWorkTakesPlacesOfItsClient) {
  WorkPool pool(kDivided, 100);
  std::promise<void> free;
  const std::shared_future<void> freed = free.get_future().share();
  HoldLargeThread(&pool, freed);
  int queued = 0;
  while (pool.Submit({.client = "a:1", .bytes = 4 << 20, .run = [freed] { freed.wait(); }})) {
    ++queued;
  }
  EXPECT_EQ(queued, 34);
  EXPECT_FALSE(pool.Submit({.client = "a:1", .bytes = 1, .run = [] {}}));
  EXPECT_TRUE(pool.Submit({.client = "a:2", .bytes = 4 << 20, .run = [freed] { freed.wait(); }}));
  EXPECT_TRUE(pool.Submit({.client = "b:1", .bytes = 1, .run = [] {}}));
  free.set_value();
}

TEST(WorkPoolTest, StoppedItNeverRunsWhatWaits) {
  WorkPool pool({.any = 1}, 10);
  std::promise<void> begun, go_on;
  ASSERT_TRUE(pool.Submit([&] {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  auto held = std::make_shared<int>(0);
  ASSERT_TRUE(pool.Submit([held] { ++*held; }));
  std::thread stop([&] { pool.Stop(); });
  while (pool.Submit({.client = "b:1", .run = [] {}})) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  go_on.set_value();
  stop.join();
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(held.use_count(), 2) << "what it holds goes with the pool";
}

TEST(WorkPoolTest, AClientMayQueueAsMuchAsIsFree) {
  HeldPool pool({.any = 1}, 100);
  pool.Hold(1);
  int queued = 0;
  while (pool.Add("greedy", kLarge, "greedy")) ++queued;
  EXPECT_EQ(queued, 34);
  for (int i = 0; i < 22; ++i) EXPECT_TRUE(pool.Add("modest", kLarge, "modest"));
  EXPECT_TRUE(pool.Add("new", 1, "new"));
  EXPECT_EQ(pool.Finish().size(), 57u);
}

TEST(WorkPoolTest, AConnectionLeavesRoomForOthersOfItsHost) {
  HeldPool pool({.any = 1}, 100);
  pool.Hold(1);
  while (pool.Add("ipv4:10.0.0.7:1", kLarge, "greedy")) {
  }
  EXPECT_TRUE(pool.Add("ipv4:10.0.0.7:2", kLarge, "modest"));
  pool.Finish();
}

TEST(WorkPoolTest, ManyConnectionsOfAHostLeaveRoomForOtherHosts) {
  HeldPool pool({.any = 1}, 100);
  pool.Hold(1);
  int port = 1;
  while (pool.Add(absl::StrCat("ipv4:10.0.0.7:", port), kLarge, "greedy")) ++port;
  EXPECT_EQ(port - 1, 50);
  EXPECT_TRUE(pool.Add("ipv4:10.0.0.8:1", kLarge, "modest"));
  pool.Finish();
}

TEST(WorkPoolTest, ManyConnectionsOfAHostHaveOneHostsTurns) {
  HeldPool pool;
  pool.Hold(1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pool.Add(absl::StrCat("ipv4:10.0.0.7:", i + 1), kLarge, "greedy"));
  }
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pool.Add("ipv4:10.0.0.8:1", kLarge, "modest"));
  const std::vector<std::string> done = pool.Finish();
  const std::vector<std::string> first(done.begin(), done.begin() + 20);
  EXPECT_GE(std::count(first.begin(), first.end(), "modest"), 9);
}

TEST(WorkPoolTest, ConnectionsOfAHostTakeTurnsAmongThemselves) {
  HeldPool pool;
  pool.Hold(1);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.Add("ipv4:10.0.0.7:1", kLarge, "greedy"));
  ASSERT_TRUE(pool.Add("ipv4:10.0.0.7:2", kLarge, "modest"));
  const std::vector<std::string> done = pool.Finish();
  EXPECT_TRUE(done[0] == "modest" || done[1] == "modest");
}

TEST(WorkPoolTest, ManyClientsComeAndGo) {
  HeldPool pool({.any = 2});
  pool.Hold(1);
  for (int i = 0; i < 900; ++i) {
    ASSERT_TRUE(pool.Add(absl::StrCat("client ", i), i % 2 == 0 ? 1 : kLarge, "done"));
  }
  EXPECT_EQ(pool.Finish().size(), 900u);
}

}  // namespace
}  // namespace tutti::door
