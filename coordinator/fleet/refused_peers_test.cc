#include "coordinator/fleet/refused_peers.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::seconds;

v1::GetStatusResponse StatusOf(const RefusedPeers& refused, Instant now) {
  v1::GetStatusResponse status;
  refused.FillStatus(now, &status);
  return status;
}

TEST(RefusedPeersTest, OneThatTriesAgainIsOneEntryWithItsLastAddress) {
  RefusedPeers refused;
  const Instant begin{};
  refused.Add("ipv4:10.0.0.7:4001", "w7", "another build", begin);
  refused.Add("ipv4:10.0.0.8:4001", "", "no proof", begin + seconds(1));
  refused.Add("ipv4:10.0.0.7:4002", "w7", "another build", begin + seconds(2));
  const v1::GetStatusResponse status = StatusOf(refused, begin + seconds(5));
  ASSERT_EQ(status.refused_peers_size(), 2);
  EXPECT_EQ(status.refused_peers(0).peer(), "ipv4:10.0.0.7:4002");
  EXPECT_EQ(status.refused_peers(0).worker_id(), "w7");
  EXPECT_EQ(status.refused_peers(0).reason(), "another build");
  EXPECT_EQ(status.refused_peers(0).times(), 2);
  EXPECT_EQ(status.refused_peers(0).seconds_ago(), 3);
  EXPECT_EQ(status.refused_peers(1).peer(), "ipv4:10.0.0.8:4001");
}

TEST(RefusedPeersTest, AFewAreKeptTheLatest) {
  RefusedPeers refused;
  for (int i = 0; i < 100; ++i) refused.Add("unix:", absl::StrCat("w", i), "why", {});
  const v1::GetStatusResponse status = StatusOf(refused, {});
  ASSERT_EQ(status.refused_peers_size(), static_cast<int>(kRefusedPeersMax));
  EXPECT_EQ(status.refused_peers(0).worker_id(), "w99");
}

TEST(RefusedPeersTest, WordsOfStrangersAreShortAndPrintable) {
  RefusedPeers refused;
  refused.Add("unix:\x1b[2J", "w\n1", std::string(100'000, '\xff'), {});
  const v1::GetStatusResponse status = StatusOf(refused, {});
  EXPECT_EQ(status.refused_peers(0).peer(), "unix:?[2J");
  EXPECT_EQ(status.refused_peers(0).worker_id(), "");
  EXPECT_EQ(status.refused_peers(0).reason(), std::string(kRefusedPeerBytesMax, '?'));
}

}  // namespace
}  // namespace tutti::coordinator
