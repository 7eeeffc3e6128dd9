#include "transport/announced_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/limits.h"

namespace tutti::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Read(std::string_view text) {
  const auto address = ParseAnnouncedAddress(text);
  return address.ok() ? address->ToString() : std::string(address.status().message());
}

TEST(AnnouncedAddress, IsReadStrictlyAndWrittenInOneWay) {
  EXPECT_EQ(Read("10.0.0.7:50060"), "10.0.0.7:50060");
  EXPECT_EQ(Read("[FD00::0:7]:1"), "[fd00::7]:1");
  EXPECT_EQ(Read("W1.Workers.svc:65535"), "w1.workers.svc:65535");
  EXPECT_EQ(Read("node0:80"), "node0:80");
  // The address that is checked against networks is what is dialled.
  EXPECT_EQ(Read("[::ffff:10.0.0.7]:50060"), "10.0.0.7:50060");
}

TEST(AnnouncedAddress, EverythingElseIsRefused) {
  for (const char* text : {"",
                           ":",
                           "10.0.0.7",
                           "10.0.0.7:",
                           ":50060",
                           "10.0.0.7:0",
                           "10.0.0.7:050",
                           "10.0.0.7:65536",
                           "10.0.0.7:+1",
                           "10.0.0.7: 1",
                           " 10.0.0.7:1",
                           "10.0.0.7:1 ",
                           "unix:/run/x",
                           "unix:/run:1",
                           "dns:///node0:1",
                           "http://node0:1",
                           "node0:1/x",
                           "user@node0:1",
                           "127.1:80",
                           "0x7f.1:80",
                           "2130706433:80",
                           "0x7f000001:80",
                           "fd00::7:1",
                           "[10.0.0.7]:1",
                           "[node0]:1",
                           "[fe80::1%lo]:1",
                           "[fe80::1]:1",
                           "-a:1",
                           "a-:1",
                           "a..b:1",
                           ".a:1",
                           "a.:1",
                           "a_b:1",
                           "0.0.0.0:1",
                           "[::]:1",
                           "224.0.0.1:1",
                           "255.255.255.255:1",
                           "[ff02::1]:1",
                           "no\nde:1"}) {
    EXPECT_FALSE(ParseAnnouncedAddress(text).ok()) << text;
  }
  EXPECT_FALSE(ParseAnnouncedAddress(std::string_view("a\0b:1", 5)).ok());
}

TEST(AnnouncedAddress, IsBounded) {
  const std::string label(kHostLabelBytesMax, 'a');
  const std::string name = label + "." + label + "." + label + "." + label.substr(2);
  ASSERT_THAT(name, SizeIs(kHostNameBytesMax));
  EXPECT_TRUE(ParseAnnouncedAddress(name + ":65535").ok());
  EXPECT_FALSE(ParseAnnouncedAddress(name + "a:65535").ok());
  EXPECT_FALSE(ParseAnnouncedAddress(label + "a:1").ok());
  const std::string refused = Read(std::string(100'000, '\n'));
  EXPECT_THAT(refused, HasSubstr("100000 bytes"));
  EXPECT_LT(refused.size(), 600u);
}

// gRPC takes a host that is called like one of its schemes for that.
TEST(AnnouncedAddress, ANameStaysAName) {
  EXPECT_EQ(ParseAnnouncedAddress("unix:50060")->ToTarget(), "dns:///unix:50060");
  EXPECT_EQ(ParseAnnouncedAddress("10.0.0.7:50060")->ToTarget(), "10.0.0.7:50060");
}

}  // namespace
}  // namespace tutti::transport
