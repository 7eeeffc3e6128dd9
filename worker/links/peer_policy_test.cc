#include "worker/links/peer_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/limits.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

transport::AnnouncedAddress Read(const std::string& text) {
  return transport::ParseAnnouncedAddress(text).value();
}

bool Allows(const PeerPolicy& policy, const std::string& text) {
  return policy.Check(Read(text)).ok();
}

TEST(PeerPolicy, NetworksAreForAddressesAndPatternsForNames) {
  PeerPolicy policy;
  EXPECT_TRUE(policy.empty());
  EXPECT_EQ(policy.AddNetwork("10.80.0.0/16"), absl::OkStatus());
  EXPECT_EQ(policy.AddNetwork("fd00::/8"), absl::OkStatus());
  EXPECT_EQ(policy.AddName("*.Workers.svc"), absl::OkStatus());
  for (const char* text : {"10.80.3.1:1", "[fd12::1]:1", "w1.workers.svc:1", "W1.WORKERS.SVC:1",
                           "[::ffff:10.80.0.1]:1"}) {
    EXPECT_TRUE(Allows(policy, text)) << text;
  }
  for (const char* text : {"10.81.0.1:1", "[2001:db8::1]:1", "workers.svc:1", "a.w1.workers.svc:1",
                           "w1.workers.svc.evil.example:1", "w1xworkers.svc:1", "node1:1"}) {
    EXPECT_FALSE(Allows(policy, text)) << text;
  }
  EXPECT_THAT(policy.Check(Read("10.81.0.1:50060")).ToString(),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("10.81.0.1:50060"),
                    HasSubstr("10.80.0.0/16, fd00::/8, *.workers.svc")));
}

TEST(PeerPolicy, AStarStandsForAnythingWithinALabel) {
  PeerPolicy policy;
  EXPECT_EQ(policy.AddName("w*-gpu*.site?.example").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(policy.AddName("w*-gpu*.*.example"), absl::OkStatus());
  for (const char* text :
       {"w1-gpu.a.example:1", "w-gpu-gpu7.b-c.example:1", "wa-gpu-gpu.a.example:1"}) {
    EXPECT_TRUE(Allows(policy, text)) << text;
  }
  for (const char* text : {"w1.a.example:1", "w1-gpu.example:1", "w1.x-gpu.a.example:1",
                           "w1-gpu.a.b.example:1", "xw1-gpu.a.example:1"}) {
    EXPECT_FALSE(Allows(policy, text)) << text;
  }
}

TEST(PeerPolicy, WhatNoNameCanBeIsNoPattern) {
  PeerPolicy policy;
  for (const char* text : {"", "*", "*.*", "a b", "unix:/run/x", "10.0.0.7", "a..b", "*.1"}) {
    EXPECT_EQ(policy.AddName(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(policy.AddNetwork("10.0.0.1/8").ToString(), HasSubstr("write 10.0.0.0/8"));
  for (size_t i = 0; i < kPeerRulesMax; ++i) EXPECT_TRUE(policy.AddName("node1").ok());
  EXPECT_EQ(policy.AddName("node2").code(), absl::StatusCode::kResourceExhausted);
}

TEST(PeerPolicy, WithoutAWordItIsTheOwnPrivateNetworkOrDomain) {
  const PeerPolicy ten = PeerPolicy::Around(Read("10.80.1.2:50060"));
  EXPECT_TRUE(Allows(ten, "10.99.0.1:50060"));
  for (const char* text : {"127.0.0.1:1", "192.168.0.1:1", "8.8.8.8:1", "169.254.169.254:80",
                           "[fd00::1]:1", "node1:1"}) {
    EXPECT_FALSE(Allows(ten, text)) << text;
  }
  const PeerPolicy loopback = PeerPolicy::Around(Read("127.0.0.1:50060"));
  EXPECT_TRUE(Allows(loopback, "127.0.0.2:1"));
  EXPECT_FALSE(Allows(loopback, "10.80.1.2:1"));
  const PeerPolicy internet = PeerPolicy::Around(Read("8.8.8.8:50060"));
  EXPECT_TRUE(Allows(internet, "8.8.8.8:50061"));
  EXPECT_FALSE(Allows(internet, "8.8.4.4:50060"));
  const PeerPolicy domain = PeerPolicy::Around(Read("w0.workers.svc:50060"));
  EXPECT_TRUE(Allows(domain, "w1.workers.svc:50060"));
  EXPECT_FALSE(Allows(domain, "w1.other.svc:50060"));
  // Too many names end in "com" or "local".
  EXPECT_EQ(PeerPolicy::Around(Read("w0.local:50060")).ToString(), "nothing");
  EXPECT_EQ(PeerPolicy::Around(Read("node0:50060")).ToString(), "nothing");
}

}  // namespace
}  // namespace tutti::worker
