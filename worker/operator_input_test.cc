// Input that operators write: peers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "worker/links/peer_table.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

TEST(PeerTable, FindsAddressesByName) {
  PeerTable peers;
  EXPECT_EQ(peers.Add("w1=127.0.0.1:5000"), absl::OkStatus());
  EXPECT_EQ(peers.Add("w2 = unix:/run/a=b.sock"), absl::OkStatus());
  EXPECT_EQ(peers.Add("w1=127.0.0.1:5000"), absl::OkStatus());
  EXPECT_EQ(peers.Find("w1").value(), "127.0.0.1:5000");
  EXPECT_EQ(peers.Find("w2").value(), "unix:/run/a=b.sock");
  EXPECT_THAT(peers.Find("w3").status().ToString(),
              AllOf(HasSubstr("\"w3\""), HasSubstr("w1, w2")));
  EXPECT_THAT(peers.Add("w1=other:1").ToString(), HasSubstr("two addresses"));
}

TEST(PeerTable, QuotesWhatIsWrong) {
  PeerTable peers;
  EXPECT_THAT(peers.Add("nonsense").ToString(), HasSubstr("NAME=ADDRESS"));
  EXPECT_THAT(peers.Add("=a:1").ToString(), HasSubstr("worker id \"\""));
  EXPECT_THAT(peers.Add("a b=c:1").ToString(), HasSubstr("worker id \"a b\""));
  EXPECT_THAT(peers.Add("a=").ToString(), HasSubstr("has no address"));
  EXPECT_THAT(peers.Add(std::string(129, 'a') + "=c:1").ToString(), HasSubstr("worker id"));
  EXPECT_THAT(peers.Add("a=c:65536").ToString(), HasSubstr("ports end at 65535"));
  EXPECT_THAT(peers.Add("a=http://c:1").ToString(), HasSubstr("write c:1"));
  EXPECT_EQ(peers.size(), 0u);
}

TEST(PeerTable, ReadsFiles) {
  const std::string path = ::testing::TempDir() + "/tutti_peers";
  std::ofstream(path) << "# the pipeline\n\n w1 10.0.0.1:5000 \r\nw2\t10.0.0.2:5000\n";
  PeerTable peers;
  EXPECT_EQ(peers.AddFile(path), absl::OkStatus());
  EXPECT_EQ(peers.Find("w1").value(), "10.0.0.1:5000");
  EXPECT_EQ(peers.Find("w2").value(), "10.0.0.2:5000");
  std::ofstream(path) << "w1 10.0.0.1:5000\nw9\n";
  EXPECT_THAT(peers.AddFile(path).ToString(), HasSubstr(path + ":2: \"w9\""));
  std::remove(path.c_str());
  EXPECT_EQ(peers.AddFile(path).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti::worker
