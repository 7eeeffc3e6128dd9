#include "base/ip_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using ::testing::HasSubstr;

IpNetwork Network(const char* text) { return IpNetwork::Parse(text).value(); }

TEST(IpAddress, IsReadWholeAndWrittenInOneWay) {
  EXPECT_EQ(IpAddress::Parse("10.0.0.7")->ToString(), "10.0.0.7");
  EXPECT_EQ(IpAddress::Parse("FD00:0:0::07")->ToString(), "fd00::7");
  EXPECT_EQ(IpAddress::Parse("::ffff:10.0.0.7"), IpAddress::Parse("10.0.0.7"));
  for (const char* text : {"", "10.1", "0x7f.1", "2130706433", "127.0.0.01", "10.0.0.7 ",
                           "10.0.0.256", "fe80::1%eth0", "[::1]", "::g", "node0"}) {
    EXPECT_FALSE(IpAddress::Parse(text).has_value()) << text;
  }
  EXPECT_FALSE(IpAddress::Parse(std::string_view("10.0.0.7\0x", 10)).has_value());
}

TEST(IpAddress, OfOneMachine) {
  for (const char* text : {"10.0.0.7", "127.0.0.1", "8.8.8.8", "::1", "2001:db8::1"}) {
    EXPECT_TRUE(IpAddress::Parse(text)->IsOneMachines()) << text;
  }
  for (const char* text : {"0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "255.255.255.255", "ff02::1"}) {
    EXPECT_FALSE(IpAddress::Parse(text)->IsOneMachines()) << text;
  }
}

TEST(IpNetwork, ContainsItsAddresses) {
  EXPECT_TRUE(Network("10.0.0.0/8").Contains(*IpAddress::Parse("10.255.1.2")));
  EXPECT_FALSE(Network("10.0.0.0/8").Contains(*IpAddress::Parse("11.0.0.1")));
  EXPECT_TRUE(Network("10.80.0.0/12").Contains(*IpAddress::Parse("10.95.255.255")));
  EXPECT_FALSE(Network("10.80.0.0/12").Contains(*IpAddress::Parse("10.96.0.0")));
  EXPECT_TRUE(Network("10.0.0.7").Contains(*IpAddress::Parse("10.0.0.7")));
  EXPECT_FALSE(Network("10.0.0.7").Contains(*IpAddress::Parse("10.0.0.6")));
  EXPECT_TRUE(Network("fd00::/8").Contains(*IpAddress::Parse("fd12::1")));
  EXPECT_TRUE(Network("0.0.0.0/0").Contains(*IpAddress::Parse("8.8.8.8")));
  EXPECT_FALSE(Network("0.0.0.0/0").Contains(*IpAddress::Parse("fd00::1"))) << "another family";
  EXPECT_FALSE(Network("::/0").Contains(*IpAddress::Parse("::ffff:8.8.8.8"))) << "IPv4 in disguise";
}

TEST(IpNetwork, RefusalsSayWhatWasMeant) {
  EXPECT_THAT(IpNetwork::Parse("10.0.0.7/8").status().ToString(), HasSubstr("write 10.0.0.0/8"));
  EXPECT_THAT(IpNetwork::Parse("10.0.0.0/33").status().ToString(), HasSubstr("0 to 32"));
  EXPECT_THAT(IpNetwork::Parse("10.0.0.0/").status().ToString(), HasSubstr("0 to 32"));
  EXPECT_THAT(IpNetwork::Parse("fd00::/-1").status().ToString(), HasSubstr("0 to 128"));
  EXPECT_THAT(IpNetwork::Parse("node0/8").status().ToString(), HasSubstr("is no network"));
  EXPECT_EQ(Network("fd00::/8").ToString(), "fd00::/8");
}

TEST(IpNetwork, PrivateOnes) {
  EXPECT_EQ(PrivateNetworkOf(*IpAddress::Parse("10.80.1.2")), Network("10.0.0.0/8"));
  EXPECT_EQ(PrivateNetworkOf(*IpAddress::Parse("172.31.0.1")), Network("172.16.0.0/12"));
  EXPECT_EQ(PrivateNetworkOf(*IpAddress::Parse("127.0.0.1")), Network("127.0.0.0/8"));
  EXPECT_EQ(PrivateNetworkOf(*IpAddress::Parse("fd12::1")), Network("fc00::/7"));
  for (const char* text : {"8.8.8.8", "172.32.0.1", "169.254.169.254", "fe80::1", "2001:db8::1"}) {
    EXPECT_FALSE(PrivateNetworkOf(*IpAddress::Parse(text)).has_value()) << text;
  }
}

}  // namespace
}  // namespace tutti
