#include "gateway/service/traffic.h"

#include <gtest/gtest.h>

#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Within a bucket.
void ExpectAbout(const OrderedJson& got, double wanted) {
  ASSERT_TRUE(got.is_number()) << got;
  EXPECT_GE(got.get<double>(), wanted);
  EXPECT_LE(got.get<double>(), wanted * 1.15);
}

TEST(DurationCounts, HaveQuantiles) {
  DurationCounts counts;
  EXPECT_TRUE(counts.QuantileMs(0.5).is_null());
  for (int i = 1; i <= 100; ++i) counts.Add(milliseconds(i));
  ExpectAbout(counts.QuantileMs(0.5), 50);
  ExpectAbout(counts.QuantileMs(0.99), 99);
  DurationCounts more;
  more.Add(milliseconds(1000), 300);
  more.Add(Duration(0));
  more.Add(std::chrono::hours(24));
  counts.Add(more);
  EXPECT_EQ(counts.total(), 402);
  ExpectAbout(counts.QuantileMs(0.5), 1000);
  EXPECT_LE(counts.QuantileMs(0).get<double>(), 0.05);
  EXPECT_GT(counts.QuantileMs(1).get<double>(), 200e3);
}

class TrafficTest : public ::testing::Test {
 protected:
  // A request whose first token comes after `first`, and `tokens` more `gap` apart.
  void Ask(Duration first, int tokens, Duration gap, Traffic::End end = Traffic::End::kFinished) {
    const uint64_t number = traffic_.Begin({.name = "r", .kind = "chat"});
    traffic_.OnPrompt(number, 7);
    clock_.Advance(first);
    traffic_.OnTokens(number, 0, 0, 1);
    for (int i = 0; i < tokens; ++i) {
      clock_.Advance(gap);
      traffic_.OnTokens(number, 0, 0, 1);
    }
    traffic_.OnEnd(number, end);
  }
  void ToNextSecond() { clock_.Advance(seconds(1)); }

  ManualClock clock_;
  Traffic traffic_{&clock_};
};

TEST_F(TrafficTest, CountsWhatWasGoodAndWhatWasNot) {
  Ask(milliseconds(200), 10, milliseconds(20));
  Ask(milliseconds(2500), 10, milliseconds(20));  // late
  Ask(milliseconds(200), 10, milliseconds(150));  // slow
  Ask(milliseconds(200), 10, milliseconds(20), Traffic::End::kFailed);
  Ask(milliseconds(200), 10, milliseconds(20), Traffic::End::kCancelled);
  ToNextSecond();
  const OrderedJson all = traffic_.Summary();
  EXPECT_EQ(all["finished"], 3);
  EXPECT_EQ(all["failed"], 1);
  EXPECT_EQ(all["cancelled"], 1);
  EXPECT_EQ(all["good"], 1);
  EXPECT_EQ(all["good_share"], 0.25);
  EXPECT_EQ(all["ttft_ms"]["count"], 5);
  ExpectAbout(all["ttft_ms"]["p50"], 200);
  ExpectAbout(all["itl_ms"]["p50"], 20);
  ExpectAbout(all["itl_ms"]["p99"], 150);
}

TEST_F(TrafficTest, TokensThatComeTogetherShareTheTime) {
  const uint64_t number = traffic_.Begin({});
  traffic_.OnTokens(number, 0, 0, 1);
  traffic_.OnTokens(number, 1, 0, 1);
  clock_.Advance(milliseconds(40));
  traffic_.OnTokens(number, 0, 0, 4);
  clock_.Advance(milliseconds(40));
  traffic_.OnTokens(number, 1, 0, 1);
  ToNextSecond();
  const OrderedJson all = traffic_.Summary();
  EXPECT_EQ(all["itl_ms"]["count"], 5);
  ExpectAbout(all["itl_ms"]["p50"], 10);
  ExpectAbout(all["itl_ms"]["p99"], 80);
  EXPECT_EQ(all["tokens_per_second"], 7);
}

TEST_F(TrafficTest, ShowsRequestsUnderWay) {
  for (size_t i = 0; i < kRequestsShown + 5; ++i) traffic_.Begin({.name = "a", .kind = "text"});
  const OrderedJson rows = traffic_.UnderWay();
  ASSERT_EQ(rows.size(), kRequestsShown);
  EXPECT_EQ(rows[0]["id"], "a");
  EXPECT_TRUE(rows[0]["ttft_ms"].is_null());
  EXPECT_EQ(traffic_.Summary()["under_way"], kRequestsShown + 5);
}

TEST_F(TrafficTest, ForgetsWhatIsLongAgo) {
  Ask(milliseconds(10), 3, milliseconds(10));
  ToNextSecond();
  ASSERT_EQ(traffic_.History(0).size(), 1);
  EXPECT_EQ(traffic_.History(0)[0]["tokens"], 4);
  EXPECT_TRUE(traffic_.History(1).empty());
  clock_.Advance(seconds(kTrafficWindowS));
  EXPECT_EQ(traffic_.Summary()["tokens_per_second"], 0);
  clock_.Advance(seconds(kTrafficHistoryS));
  EXPECT_TRUE(traffic_.History(0).empty());
  for (int i = 0; i < 2 * kTrafficHistoryS; ++i) {
    Ask(milliseconds(10), 1, milliseconds(10));
    ToNextSecond();
  }
  EXPECT_EQ(traffic_.History(0).size(), static_cast<size_t>(kTrafficHistoryS));
}

TEST_F(TrafficTest, IgnoresWhatItDoesNotKnow) {
  const uint64_t number = traffic_.Begin({});
  traffic_.OnEnd(number, Traffic::End::kFinished);
  traffic_.OnEnd(number, Traffic::End::kFailed);
  traffic_.OnTokens(number, 0, 0, 5);
  traffic_.OnPrompt(number + 9, 5);
  ToNextSecond();
  EXPECT_EQ(traffic_.Summary()["tokens_per_second"], 0);
  EXPECT_EQ(traffic_.Summary()["failed"], 0);
}

}  // namespace
}  // namespace tutti::gateway
